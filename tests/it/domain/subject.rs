//! Business keys.

use countersign::domain::subject::Subject;
use serde_json::json;

#[test]
fn a_key_is_a_short_scalar_without_controls() {
    assert_eq!(Subject::of("order", &json!("A:17")), Subject::parse("order:A:17"));
    assert_eq!(Subject::of("order", &json!(17)), Subject::parse("order:17"));
    for none in [json!(null), json!(""), json!(["a"]), json!({}), json!("a\nb"), json!("a\0"), json!("x".repeat(257))] {
        assert_eq!(Subject::of("order", &none), None, "{none}");
    }
}

#[test]
fn it_is_written_name_colon_value() {
    for wrong in ["", "order", ":17", "order:"] {
        assert_eq!(Subject::parse(wrong), None, "{wrong}");
    }
}
