//! Lengths of time as people write them.

use std::time::Duration;

use countersign::domain::time::parse_duration;

#[test]
fn every_unit_is_read() {
    for (text, millis) in [("250ms", 250), ("0s", 0), ("30s", 30_000), ("5m", 300_000), ("4h", 14_400_000)] {
        assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
    }
    assert_eq!(parse_duration("90d"), Some(Duration::from_secs(90 * 86_400)));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for text in ["", "5", "m", "-5m", "+5m", "5 m", " 5m", "5m ", "1.5h", "1h30m", "5M", "5min", "1w", "٥m", "1e3s"] {
        assert_eq!(parse_duration(text), None, "{text:?}");
    }
}

#[test]
fn a_length_beyond_a_century_is_refused() {
    assert!(parse_duration("36525d").is_some());
    for text in ["36526d", "18446744073709551615d", "99999999999999999999s"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}
