//! Codes of approvals.

use countersign::domain::approval::code::ApprovalCode;

#[test]
fn a_code_shows_thirty_bits_in_two_groups() {
    assert_eq!(ApprovalCode::from_bits(0).as_str(), "AP-0000-00");
    assert_eq!(ApprovalCode::from_bits(0x3fff_ffff).as_str(), "AP-ZZZZ-ZZ");
    assert_eq!(ApprovalCode::from_bits(1).as_str(), "AP-0000-01");
    assert_eq!(ApprovalCode::from_bits(1 << 25).as_str(), "AP-1000-00");
}

#[test]
fn a_code_is_read_as_people_type_it() {
    let code = ApprovalCode::from_bits(0x0c0f_fee0);
    assert_eq!(ApprovalCode::parse(&format!(" {} ", code.as_str().to_lowercase())), Some(code));
    assert_eq!(ApprovalCode::parse("ap-olil-oo"), ApprovalCode::parse("AP-0111-00"));
}

#[test]
fn what_is_no_code_is_not_read() {
    for text in
        ["", "AP-", "AP-0000-0", "AP-0000-000", "AP-000000", "AP-0000_00", "AP-UUUU-UU", "XX-0000-00", "AP-00é0-00"]
    {
        assert_eq!(ApprovalCode::parse(text), None, "{text}");
    }
}
