//! The form of API keys.

use countersign::auth::api_key::{ApiKeyText, NotAnApiKey};
use proptest::prelude::*;

fn counting() -> [u8; 32] {
    std::array::from_fn(|i| u8::try_from(i).unwrap())
}

/// Keys and hashes computed with Python's `hashlib`.
#[test]
fn a_key_is_what_an_independent_implementation_computes() {
    for (entropy, text, hash) in [
        (
            counting(),
            "cs_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf_fuRnoV",
            "d26b0c65be37c570e25eb2b9790e27cd54f096f80dbb51527594147a0b1fd625",
        ),
        (
            [0; 32],
            "cs_0000000000000000000000000000000000000000000_htJ87C",
            "335cd898372613838d45b9ca1019abc914d27db2772a2a099cddb0d481106288",
        ),
        (
            [0xff; 32],
            "cs_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1_DzVK2Z",
            "003d78545ad3d8f620c9da4ff5727122a083fb962c16815823dbcd0be04677b6",
        ),
    ] {
        let key = ApiKeyText::generate(&entropy);
        assert_eq!(key.expose(), text);
        assert_eq!(hex::encode(key.sha256()), hash);
        assert_eq!(ApiKeyText::parse(text).unwrap().sha256(), key.sha256());
    }
}

#[test]
fn one_wrong_character_anywhere_is_recognised() {
    let text = ApiKeyText::generate(&counting()).expose().to_owned();
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        let wrong = String::from_utf8(bytes).unwrap();
        assert_eq!(ApiKeyText::parse(&wrong).unwrap_err(), NotAnApiKey, "{wrong}");
    }
}

#[test]
fn text_of_another_form_is_no_key() {
    let text = ApiKeyText::generate(&counting()).expose().to_owned();
    for wrong in [
        "",
        "cs_",
        "cs__",
        text.trim_start_matches('c'),
        text.trim_end_matches('V'),
        &format!("{text} "),
        &format!(" {text}"),
        &format!("{text}_"),
        &format!("Bearer {text}"),
        &text.replacen("cs_", "CS_", 1),
        &text.replacen('_', "-", 2),
        "cs_ａaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_aaaaaa",
    ] {
        assert_eq!(ApiKeyText::parse(wrong).unwrap_err(), NotAnApiKey, "{wrong:?}");
    }
}

#[test]
fn debug_text_shows_nothing_of_a_key() {
    assert_eq!(format!("{:?}", ApiKeyText::generate(&counting())), "ApiKeyText(..)");
}

proptest! {
    #[test]
    fn every_generated_key_is_recognised_and_has_one_length(entropy: [u8; 32]) {
        let key = ApiKeyText::generate(&entropy);
        prop_assert_eq!(key.expose().len(), 53);
        prop_assert!(ApiKeyText::parse(key.expose()).is_ok());
    }

    #[test]
    fn other_text_is_no_key(text: String) {
        prop_assert!(ApiKeyText::parse(&text).is_err());
        prop_assert!(ApiKeyText::parse(&["cs_", &text].concat()).is_err());
    }
}
