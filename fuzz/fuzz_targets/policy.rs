//! Policy files: any text loads or is told what is wrong with it, at a place that is there.

#![no_main]

use countersign::domain::policy::{Fault, Policy, Severity, SourceFile};
use libfuzzer_sys::fuzz_target;

/// Divides a policy from the schema file it may name as `parameters_file = "schema.json"`.
const DIVIDER: &str = "\n%%%\n";

fuzz_target!(init: let_the_condition_parser_panic(), |input: &str| {
    let (policy, schema) = input.split_once(DIVIDER).unwrap_or((input, "{}"));
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    let files = [file("policy.toml", policy), file("schema.json", schema)];
    match Policy::load(&files) {
        Ok(loaded) => {
            check(&files, &loaded.warnings);
            assert!(loaded.warnings.iter().all(|fault| fault.severity == Severity::Warning), "an error, and it loads");
            for tool in loaded.policy.tools() {
                let named = loaded.policy.tool(&tool.name).expect("a tool has its own name");
                assert_eq!(named.name, tool.name);
            }
        }
        Err(faults) => {
            check(&files, &faults);
            assert!(faults.iter().any(|fault| fault.severity == Severity::Error), "it does not load for no reason");
        }
    }
});

fn check(files: &[SourceFile], faults: &[Fault]) {
    assert!(faults.is_sorted(), "the faults are not in the order of the files");
    for fault in faults {
        let file = files.iter().find(|file| file.path == fault.file);
        let text = &file.unwrap_or_else(|| panic!("a fault in no file: {fault}")).text;
        let line = fault.line.checked_sub(1).and_then(|before| text.split('\n').nth(before));
        let line = line.unwrap_or_else(|| panic!("a fault on no line: {fault}"));
        // The end of a line is a place as well.
        assert!((1..=line.chars().count() + 1).contains(&fault.column), "a fault in no column: {fault}");
        assert!(!fault.message.is_empty(), "a fault without a message");
    }
}

/// Conditions are parsed on a thread of their own because their parser panics, and there it is caught; the fuzzer's own
/// hook would end the process first.
fn let_the_condition_parser_panic() {
    let aborting = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("condition-parser") {
            aborting(panic);
        }
    }));
}
