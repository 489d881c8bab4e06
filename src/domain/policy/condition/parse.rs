//! Reads the source of a condition into the syntax tree of the `cel` crate, whatever the source does to its parser.
//!
//! The parser recurses without a limit of its own, panics on some sources and aborts the process when the stack runs
//! out. Here it only ever sees a short source, on a thread with a large stack whose panics are caught, and the tree
//! leaves that thread only when it is shallow and small. It knows nothing of what the names in it mean.

use std::thread;

use cel::{
    Env, IdedExpr,
    common::ast::{EntryExpr, Expr, SourceInfo},
    parser::ParseError,
};

use super::ConditionFault;

/// The longest source, in bytes.
pub(super) const MAX_SOURCE_BYTES: usize = 1024;
/// The most nodes a tree may have.
const MAX_NODES: usize = 256;
/// The most nodes on the way from the root of a tree to a leaf.
const MAX_DEPTH: usize = 64;
/// Eight times what the hostile sources of the tests were measured to need in a build without optimisation.
const PARSER_STACK_BYTES: usize = 16 * 1024 * 1024;

/// A syntax tree within the bounds, and where its nodes stand in the source.
pub(super) struct Parsed {
    pub(super) root: IdedExpr,
    source_info: SourceInfo,
}

impl Parsed {
    /// Where the operator, name or literal of the node `id` begins, as an offset in characters.
    pub(super) fn column(&self, id: u64) -> Option<usize> {
        let (start, _) = self.source_info.offset_for(id)?;
        let (before, after) = self.source_info.source.split_at_checked(usize::try_from(start).ok()?)?;
        let before = if after.starts_with('(') {
            // The parser marks a call by its bracket; its name is what people look for.
            before.trim_end().trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')
        } else {
            before
        };
        Some(before.chars().count())
    }
}

/// Parses `source` without expanding macros: they stay calls, as they are written.
///
/// # Errors
/// The faults of the syntax, or the bound that was crossed.
pub(super) fn parse(source: &str) -> Result<Parsed, Vec<ConditionFault>> {
    if source.trim().is_empty() {
        return Err(vec![ConditionFault::whole("the condition is empty", "write an expression, such as `true`")]);
    }
    if source.len() > MAX_SOURCE_BYTES {
        return Err(vec![ConditionFault::whole(
            format!("the condition is {} bytes long; at most {MAX_SOURCE_BYTES} are read", source.len()),
            "split it into several rules, or move lists of constants to [vars]",
        )]);
    }
    let parsed = thread::scope(|scope| {
        thread::Builder::new()
            .name("condition-parser".to_owned())
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, || parse_on_this_stack(source))
            .map(thread::ScopedJoinHandle::join)
    });
    match parsed {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(vec![ConditionFault::whole(
            "the parser gave up on this condition",
            "look for brackets that are not closed, and write it more simply",
        )]),
        Err(error) => Err(vec![ConditionFault::whole(
            format!("no thread to parse the condition on: {error}"),
            "free memory or raise the limit on threads",
        )]),
    }
}

fn parse_on_this_stack(source: &str) -> Result<Parsed, Vec<ConditionFault>> {
    let parser = Env::default().parser().enable_optional_syntax(false).enable_ident_escape_syntax(true);
    let (root, source_info) = parser
        .parse_with_source_info(source)
        .map_err(|errors| errors.errors.iter().map(|error| syntax_fault(source, error)).collect::<Vec<_>>())?;
    let parsed = Parsed { root, source_info };
    let mut size = Size { nodes: 0, too_deep: None };
    size.count(&parsed.root, 1);
    let mut faults = Vec::new();
    if let Some(id) = size.too_deep {
        faults.push(ConditionFault {
            column: parsed.column(id),
            message: format!("the condition is nested more than {MAX_DEPTH} deep"),
            hint: "split it into several rules".to_owned(),
        });
    } else if size.nodes > MAX_NODES {
        faults.push(ConditionFault::whole(
            format!("the condition has {} parts; at most {MAX_NODES} are admitted", size.nodes),
            "split it into several rules, or move lists of constants to [vars]",
        ));
    }
    if faults.is_empty() { Ok(parsed) } else { Err(faults) }
}

fn syntax_fault(source: &str, error: &ParseError) -> ConditionFault {
    let (line, column) = error.pos;
    let before_line: usize = match usize::try_from(line) {
        Ok(line @ 1..) => source.split_inclusive('\n').take(line - 1).map(|text| text.chars().count()).sum(),
        Ok(0) | Err(_) => 0,
    };
    let in_line = usize::try_from(column).unwrap_or(0).saturating_sub(1);
    ConditionFault {
        column: (line > 0).then_some((before_line + in_line).min(source.chars().count())),
        message: error.msg.clone(),
        hint: "conditions are CEL expressions; texts stand in quotation marks".to_owned(),
    }
}

struct Size {
    nodes: usize,
    too_deep: Option<u64>,
}

impl Size {
    fn count(&mut self, node: &IdedExpr, depth: usize) {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            self.too_deep.get_or_insert(node.id);
            return;
        }
        match &node.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.count(target, depth + 1));
                call.args.iter().for_each(|argument| self.count(argument, depth + 1));
            }
            Expr::Select(select) => self.count(&select.operand, depth + 1),
            Expr::List(list) => list.elements.iter().for_each(|element| self.count(element, depth + 1)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.count_entry(&entry.expr, depth + 1)),
            Expr::Struct(message) => message.entries.iter().for_each(|entry| self.count_entry(&entry.expr, depth + 1)),
            // No macro is expanded, so there is none; were there one, it would be refused unread.
            Expr::Comprehension(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn count_entry(&mut self, entry: &EntryExpr, depth: usize) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.count(&entry.key, depth);
                self.count(&entry.value, depth);
            }
            EntryExpr::StructField(field) => self.count(&field.value, depth),
        }
    }
}
