//! What a reviewer is shown.

use countersign::domain::review::visible;

#[test]
fn plain_text_is_shown_as_it_is() {
    for text in ["Grüße, 世界 \"quoted\" 'too'", "e\u{301}", "नमस्ते", "a b"] {
        assert_eq!(visible(text), text);
    }
}

#[test]
fn what_could_deceive_is_shown_as_its_code_point() {
    for (text, shown) in [
        ("rm\u{200b} -rf", "rm\\u{200b} -rf"),
        ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
        ("a\u{a0}b", "a\\u{a0}b"),
        ("a\u{2028}b", "a\\u{2028}b"),
        ("a\nb\tc\0", "a\\nb\\tc\\0"),
        ("\u{feff}x", "\\u{feff}x"),
        ("x\u{fe0f}", "x\\u{fe0f}"),
        ("\u{3164}", "\\u{3164}"),
        ("\u{e0041}", "\\u{e0041}"),
        ("Z\u{301}\u{302}\u{303}\u{304}", "Z\u{301}\u{302}\\u{303}\\u{304}"),
    ] {
        assert_eq!(visible(text), shown);
    }
}

#[test]
fn an_escape_cannot_be_forged_by_typing_it() {
    assert_eq!(visible("\\u{202e}"), "\\\\u{202e}");
    assert_ne!(visible("\\u{202e}"), visible("\u{202e}"));
}
