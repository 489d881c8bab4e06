//! Strict JSON and the hash of arguments. The expected hashes were computed by Node's `JSON.stringify` over sorted keys.

use countersign::domain::canon::json::{ArgsHash, canonical, parse};
use serde_json::{Value, json};

fn hash_of(text: &str) -> String {
    let value = parse(text.as_bytes()).unwrap();
    ArgsHash::of(value.as_object().unwrap()).unwrap().to_string()
}

fn fault_of(text: &[u8]) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn another_language_computes_the_same_hash() {
    let expected = [
        ("{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
        (r#"{"b":2,"a":1}"#, "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"),
        (r#"{"\ufb33":1,"\ud83d\ude00":2}"#, "ec4e7d8c2963caa38dccc3d42693719ac9c6ecd783891b583d333565620ac2be"),
        (r#"{"x":1e21,"y":1e-7}"#, "054225784df563c0736254d7af156d088f11e11ab8b45db4a287af77a93b843c"),
        (
            r#"{"n":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]}"#,
            "5677d3e6cd326da8eabe1a3d94da43890cf804bfe27cd88b7d0aa177e135ac4e",
        ),
        (
            r#"{"s":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}"#,
            "7ac9a5e0daa304e5a3129b61a14487fd2ab0309d41fad7cc64e0548bb01fb04b",
        ),
        (r#"{"order_id":"A-17","amount":249.99}"#, "08c4fb0c48f06a52a6eee33de2406b33a88872dd7391240b505bcb92d990f537"),
        (r#"{"z":-0,"w":0}"#, "ea409084406f8f7f6302b65a2c1e47effc75dd5ee1db3544dc2294fa433bd55d"),
        (
            r#"{"to":["a@acme.example","b@acme.example"],"subject":"Grüße","nested":{"k":[true,false,null,{"é":"e\u0301"}]}}"#,
            "6cf80b65f3b7810e198fd088e7e01f30cf9df616dc1bbdd960171385b658ca70",
        ),
        (
            r#"{"v":0.1,"w":1.7976931348623157e308,"t":5e-324,"u":9007199254740991}"#,
            "7c008545a20f2ac2e79f49fe70d001887c85a4c27bb356149c5d3b346430dd76",
        ),
    ];
    for (text, hash) in expected {
        assert_eq!(hash_of(text), format!("sha256:{hash}"), "{text}");
    }
}

#[test]
fn the_order_of_names_and_the_spelling_of_numbers_do_not_change_the_hash() {
    assert_eq!(hash_of(r#"{"qty":3,"sku":"k9"}"#), hash_of(r#"{ "sku" : "\u006b9", "qty": 3.0 }"#));
}

#[test]
fn a_changed_type_or_an_added_null_changes_the_hash() {
    let id = hash_of(r#"{"id":5}"#);
    assert_ne!(id, hash_of(r#"{"id":"5"}"#));
    assert_ne!(id, hash_of(r#"{"id":5,"x":null}"#));
}

#[test]
fn numbers_are_written_as_rfc_8785_appendix_b_lists_them() {
    let listed: [(u64, &str); 21] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for (bits, text) in listed {
        let number = json!(f64::from_bits(bits));
        assert_eq!(String::from_utf8(canonical(&number).unwrap()).unwrap(), text);
    }
}

#[test]
fn a_duplicate_name_is_refused_at_any_depth_and_in_any_spelling() {
    assert!(fault_of(br#"{"tool":"pay","args":{"to":"ok","to":"evil"}}"#).contains("duplicate name \"to\""));
    assert!(fault_of(br#"[{"b":1,"\u0062":2}]"#).contains("duplicate name \"b\""));
}

#[test]
fn a_fault_says_where_it_is() {
    let fault = parse(b"{\n  \"amount\": 9007199254740992\n}").unwrap_err();
    assert_eq!((fault.line, fault.column), (2, 13));
    assert_eq!(fault.message, "integer beyond 2^53 - 1");
}

#[test]
fn a_number_that_a_double_cannot_hold_is_refused() {
    for text in [
        "9007199254740992",
        "-9007199254740992",
        "1e400",
        "-1e400",
        "1e-400",
        "0.1234567890123456789",
        "123456789012345678.5",
        // Their canonical forms are digits, and would be refused when they come back.
        "9007199254740992.0",
        "1E+20",
        "-1e20",
        "999999999999999900000.0",
        "9.999999999999999e20",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    for text in [
        "9007199254740991",
        "9007199254740991.0",
        "-9007199254740991",
        "1e21",
        "-1e21",
        "5e-324",
        "0.0",
        "-0",
        "0e5",
        "0.00012345678901234567",
    ] {
        assert!(parse(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn digits_inside_a_string_are_no_number() {
    assert_eq!(parse(br#""\"99999999999999999999""#).unwrap(), json!("\"99999999999999999999"));
}

#[test]
fn what_is_not_exactly_one_value_in_clean_utf_8_is_refused() {
    let hostile: [&[u8]; 14] = [
        b"",
        b" ",
        b"{} {}",
        b"{},",
        b"\xef\xbb\xbf{}",
        b"\"\xff\"",
        b"\"\xc0\xaf\"",
        br#""\ud800""#,
        br#""\udc00\ud800""#,
        b"\"\x01\"",
        b"{'a':1}",
        b"[1,]",
        b"01",
        b"NaN",
    ];
    for text in hostile {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(nested(64).as_bytes()).is_ok());
    assert!(fault_of(nested(65).as_bytes()).contains("nesting deeper than 64"));
    assert!(parse(nested(100_000).as_bytes()).is_err());
    assert!(parse("{\"a\":".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn a_hash_is_read_only_in_its_one_spelling() {
    let text = hash_of("{}");
    assert_eq!(ArgsHash::parse(&text).unwrap().to_string(), text);
    for other in [text.to_uppercase(), text.replace("sha256:", ""), format!("{text}0"), text.replace("44", "4G")] {
        assert_eq!(ArgsHash::parse(&other), None, "{other}");
    }
}

proptest::proptest! {
    #[test]
    fn reading_never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn what_was_read_is_written_to_the_same_canonical_text(number in proptest::prelude::any::<f64>(), text: String) {
        let value = json!({ text.clone(): [number, text] });
        let canonical_text = canonical(&value).unwrap();
        // Large whole doubles are written as long integers, which the strict reader rightly refuses.
        if let Ok(read) = parse(&canonical_text) {
            proptest::prop_assert_eq!(canonical(&read).unwrap(), canonical_text);
        }
    }
}

#[test]
fn minus_zero_is_zero_for_rules_too() {
    assert_eq!(parse(b"-0.0").unwrap(), Value::from(0.0));
    assert!(parse(b"-0").unwrap().as_f64().unwrap().is_sign_positive());
}
