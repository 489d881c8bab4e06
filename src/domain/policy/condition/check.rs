//! Checks the syntax tree of a condition against what is known of its variables, and compiles it.
//!
//! It goes on after a fault, so that all are found at once; what is at fault counts as a value of any type from then
//! on. While it walks, the cost of an evaluation is added up in [`cost`].

mod cost;
mod names;
mod operators;

use cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr, ListExpr, LiteralValue, operators as symbols},
};
use serde_json::{Number, Value};

use super::{
    ConditionFault, Reads, Scope,
    evaluate::{Arithmetic, Case, Node, Order, Quantifier, TextTest},
    known::{Known, LARGEST_BODY, Origin, Types},
    parse::Parsed,
    pattern::Pattern,
};
use cost::{Cost, MAX_COST};
use names::VARIABLES;
use operators::number;

/// What can be compared.
const COMPARABLE: Types = Types::BOOL.or(Types::NUMBER).or(Types::TEXT);

/// A condition without faults.
pub(super) struct Checked {
    pub(super) root: Node,
    pub(super) reads: Reads,
    pub(super) cost: u64,
}

/// Checks and compiles a parsed condition.
///
/// # Errors
/// Every fault at once.
pub(super) fn check(parsed: &Parsed, scope: &dyn Scope) -> Result<Checked, Vec<ConditionFault>> {
    let mut checker =
        Checker { parsed, scope, faults: Vec::new(), reads: Reads::default(), cost: Cost::default(), inside: None };
    if scope.loosens() && scope.tool_open() {
        checker.faults.push(ConditionFault::whole(
            "a rule must not loosen an open tool, whose arguments no schema limits",
            "take `open = true` from the tool, or make the verdict no looser than its default",
        ));
    }
    let (root, known) = checker.value(&parsed.root);
    checker.expect(parsed.root.id, &known, Types::BOOL, "a condition");
    let Checker { mut faults, reads, cost, .. } = checker;
    let cost = cost.total();
    if faults.is_empty() && cost > MAX_COST {
        faults.push(ConditionFault::whole(
            format!("the condition can take {cost} steps; at most {MAX_COST} are admitted"),
            "give lists a `maxItems` and texts a `maxLength` in the schema, or split it into several rules",
        ));
    }
    if faults.is_empty() { Ok(Checked { root, reads, cost }) } else { Err(faults) }
}

/// The macro around an expression.
#[derive(Clone)]
struct Inside {
    variable: String,
    item: Known,
    most_items: u64,
}

struct Checker<'c> {
    parsed: &'c Parsed,
    scope: &'c dyn Scope,
    faults: Vec<ConditionFault>,
    reads: Reads,
    cost: Cost,
    inside: Option<Inside>,
}

type Typed = (Node, Known);

impl Checker<'_> {
    fn fault(&mut self, id: u64, message: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(ConditionFault { column: self.parsed.column(id), message: message.into(), hint: hint.into() });
    }

    /// Notes a fault and goes on with a value of any type.
    fn refuse(&mut self, id: u64, message: impl Into<String>, hint: impl Into<String>) -> Typed {
        self.fault(id, message, hint);
        (Node::Constant(Value::Null), Known::free())
    }

    /// An expression whose value is used as it is.
    fn value(&mut self, expr: &IdedExpr) -> Typed {
        let (node, known) = self.part(expr);
        match &known.origin {
            Origin::Argument(path) if path.is_empty() => self.refuse_whole(expr.id, "args"),
            Origin::Resolved => self.refuse_whole(expr.id, "resolved"),
            Origin::Agent => self.refuse_whole(expr.id, "agent"),
            Origin::Run => self.refuse_whole(expr.id, "run"),
            Origin::Now => self.refuse_whole(expr.id, "now"),
            Origin::Vars => self.refuse_whole(expr.id, "vars"),
            Origin::Argument(path) => {
                self.note_argument(expr.id, path);
                (node, known)
            }
            Origin::Record(_)
            | Origin::Records(_)
            | Origin::AgentLabels
            | Origin::Texts
            | Origin::OneOf(_)
            | Origin::Written(_)
            | Origin::Free
            | Origin::Scalar => (node, known),
        }
    }

    fn refuse_whole(&mut self, id: u64, name: &str) -> Typed {
        self.refuse(
            id,
            format!("`{name}` is read by its properties, not as a whole"),
            format!("name one, as in `{name}.x`"),
        )
    }

    /// An expression whose value is used, or that a step leads on from.
    fn part(&mut self, expr: &IdedExpr) -> Typed {
        self.cost.add(1);
        match &expr.expr {
            Expr::Literal(literal) => self.literal(expr.id, literal),
            Expr::Ident(name) => self.variable(expr.id, name),
            Expr::Select(select) => self.select(expr.id, select),
            Expr::List(list) => self.list(expr.id, list),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::Map(_) | Expr::Struct(_) => self.refuse(
                expr.id,
                "objects cannot be written out in a condition",
                "put the object into [vars] and read it as `vars.x`",
            ),
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.refuse(expr.id, "this is not an expression", "write it more simply")
            }
        }
    }

    fn literal(&mut self, id: u64, literal: &LiteralValue) -> Typed {
        let value = match literal {
            LiteralValue::Boolean(truth) => Value::Bool(*truth.inner()),
            LiteralValue::Int(int) => Value::from(*int.inner()),
            LiteralValue::Null => Value::Null,
            LiteralValue::String(text) => Value::String(text.inner().to_owned()),
            LiteralValue::Double(double) => match Number::from_f64(*double.inner()) {
                Some(number) => Value::Number(number),
                None => return self.refuse(id, "this number is not finite", "write a smaller number"),
            },
            LiteralValue::UInt(_) => {
                return self.refuse(id, "there are no unsigned integers", "write the number without `u`");
            }
            LiteralValue::Bytes(_) => {
                return self.refuse(id, "there are no byte strings", "write a text, without `b`");
            }
        };
        constant(value)
    }

    fn list(&mut self, id: u64, list: &ListExpr) -> Typed {
        if !list.optional_indices.is_empty() {
            return self.refuse(id, "optional elements are not supported", "write the element without `?`");
        }
        let elements: Vec<_> = list.elements.iter().map(|element| (element.id, self.value(element))).collect();
        if elements.iter().all(|(_, (node, _))| matches!(node, Node::Constant(_))) {
            let values = elements.into_iter().filter_map(|(_, (node, _))| into_constant(node)).collect();
            return constant(Value::Array(values));
        }
        let most_items = u64::try_from(elements.len()).unwrap_or(u64::MAX);
        let mut nodes = Vec::with_capacity(elements.len());
        let mut item: Option<Known> = None;
        for (id, (node, known)) in elements {
            self.expect(id, &known, COMPARABLE, "an element of a list");
            nodes.push(node);
            let known = Known { origin: Origin::Scalar, ..known };
            item = Some(match item {
                Some(before) => before.either(known),
                None => known,
            });
        }
        let item = Box::new(item.unwrap_or_else(Known::free));
        (Node::List(nodes), Known { most_items, ..Known::of(Types::LIST, Origin::Written(item)) })
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Typed {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (symbols::LOGICAL_AND, None, [left, right]) => {
                let (left, right) = (self.truth(left, "`&&`"), self.truth(right, "`&&`"));
                (Node::And(left, right), boolean())
            }
            (symbols::LOGICAL_OR, None, [left, right]) => {
                let (left, right) = (self.truth(left, "`||`"), self.truth(right, "`||`"));
                (Node::Or(left, right), boolean())
            }
            (symbols::LOGICAL_NOT, None, [operand]) => (Node::Not(self.truth(operand, "`!`")), boolean()),
            (symbols::CONDITIONAL, None, [condition, then, otherwise]) => {
                let condition = self.truth(condition, "`?:`");
                let (then, then_known) = self.branch(then);
                let (otherwise, otherwise_known) = self.branch(otherwise);
                let node = Node::If(condition, Box::new(then), Box::new(otherwise));
                (node, then_known.either(otherwise_known))
            }
            (symbols::EQUALS, None, [left, right]) => (self.equality(id, left, right, true), boolean()),
            (symbols::NOT_EQUALS, None, [left, right]) => (self.equality(id, left, right, false), boolean()),
            (symbols::LESS, None, [left, right]) => (self.order(id, Order::Less, left, right), boolean()),
            (symbols::LESS_EQUALS, None, [left, right]) => (self.order(id, Order::LessOrEqual, left, right), boolean()),
            (symbols::GREATER, None, [left, right]) => (self.order(id, Order::Greater, left, right), boolean()),
            (symbols::GREATER_EQUALS, None, [left, right]) => {
                (self.order(id, Order::GreaterOrEqual, left, right), boolean())
            }
            (symbols::NEGATE, None, [operand]) => {
                let (node, known) = self.value(operand);
                self.expect(operand.id, &known, Types::NUMBER, "`-`");
                (Node::Negate(Box::new(node)), number(known.types))
            }
            (symbols::ADD, None, [left, right]) => self.add(id, left, right),
            (symbols::SUBSTRACT, None, [left, right]) => {
                self.arithmetic(Arithmetic::Subtract, "`-`", Types::NUMBER, left, right)
            }
            (symbols::MULTIPLY, None, [left, right]) => {
                self.arithmetic(Arithmetic::Multiply, "`*`", Types::NUMBER, left, right)
            }
            (symbols::DIVIDE, None, [left, right]) => {
                self.arithmetic(Arithmetic::Divide, "`/`", Types::NUMBER, left, right)
            }
            (symbols::MODULO, None, [left, right]) => {
                self.arithmetic(Arithmetic::Remainder, "`%`", Types::INT, left, right)
            }
            (symbols::IN, None, [item, list]) => self.membership(id, item, list),
            (symbols::INDEX, None, [of, index]) => self.index(id, of, index),
            ("has", None, [of]) => self.has(id, of),
            ("size", None, [of]) | ("size", Some(of), []) => {
                let (node, known) = self.value(of);
                self.expect(of.id, &known, Types::TEXT.or(Types::LIST).or(Types::MAP), "`size`");
                if known.types.meets(Types::TEXT) {
                    self.text_work(&known);
                }
                (Node::Size(Box::new(node)), Known::scalar(Types::INT))
            }
            ("contains", Some(text), [part]) => self.text_test(TextTest::Contains, "`contains`", text, part),
            ("startsWith", Some(text), [part]) => self.text_test(TextTest::StartsWith, "`startsWith`", text, part),
            ("endsWith", Some(text), [part]) => self.text_test(TextTest::EndsWith, "`endsWith`", text, part),
            ("lowerAscii", Some(text), []) => self.change_case(Case::Lower, "`lowerAscii`", text),
            ("upperAscii", Some(text), []) => self.change_case(Case::Upper, "`upperAscii`", text),
            ("matches", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
                self.matches(text, pattern, "matches", |pattern, _| Pattern::regex(pattern))
            }
            ("glob", None, [text, pattern]) => self.matches(text, pattern, "glob", Pattern::glob),
            ("requested", None, [of]) => {
                self.reads.requested = true;
                let (node, known) = self.value(of);
                self.expect(of.id, &known, Types::TEXT.or(Types::NUMBER), "`requested`");
                self.search_work(&known);
                (Node::Requested(Box::new(node)), boolean())
            }
            ("all", Some(list), [variable, body]) => self.each(id, Quantifier::All, list, variable, body),
            ("exists", Some(list), [variable, body]) => self.each(id, Quantifier::Exists, list, variable, body),
            ("exists_one", Some(list), [variable, body]) => self.each(id, Quantifier::ExistsOne, list, variable, body),
            (name, _, _) => self.refuse(
                id,
                format!("there is no function `{name}` that is called like this"),
                "there are has(x.y), list.all(i, ...), list.exists(i, ...), list.exists_one(i, ...), size(x), \
                 text.contains(t), text.startsWith(t), text.endsWith(t), text.lowerAscii(), text.upperAscii(), \
                 text.matches(\"regex\"), glob(text, \"pattern\"), requested(x)",
            ),
        }
    }

    fn truth(&mut self, expr: &IdedExpr, operator: &str) -> Box<Node> {
        let (node, known) = self.value(expr);
        self.expect(expr.id, &known, Types::BOOL, operator);
        Box::new(node)
    }

    fn branch(&mut self, expr: &IdedExpr) -> Typed {
        let (node, known) = self.value(expr);
        self.expect(expr.id, &known, COMPARABLE, "each side of `?:`");
        (node, known)
    }

    /// Refuses a value that is never of these types and, where a schema or the policy speaks, one that may not be.
    fn expect(&mut self, id: u64, known: &Known, takes: Types, who: &str) -> bool {
        let types = known.types.without(Types::NULL);
        if !types.meets(takes) {
            let hint = "look at the types in the tool's `parameters`";
            self.fault(id, format!("{who} takes {}; this is {}", takes.names(), known.types.names()), hint);
            return false;
        }
        if !known.free && !types.within(takes) {
            self.fault(id, format!("{who} takes {}; this may be {}", takes.names(), types.names()), one_type(known));
            return false;
        }
        true
    }

    fn each(
        &mut self,
        id: u64,
        quantifier: Quantifier,
        list: &IdedExpr,
        variable: &IdedExpr,
        body: &IdedExpr,
    ) -> Typed {
        if self.inside.is_some() {
            let hint = "split it into several rules, or look at one list only";
            return self.refuse(id, "a macro over a list stands inside another", hint);
        }
        let Expr::Ident(name) = &variable.expr else {
            return self.refuse(
                variable.id,
                "the variable of a macro is a plain name",
                "write it as in `all(x, x > 0)`",
            );
        };
        if VARIABLES.contains(&name.as_str()) || name.starts_with('.') {
            return self.refuse(variable.id, format!("`{name}` has a meaning of its own"), "take another name");
        }
        let (list_node, list_known) = self.value(list);
        self.expect(list.id, &list_known, Types::LIST, "a macro over a list");
        let item = self.item_of(&list_known).unwrap_or_else(Known::free);
        let most_items = list_known.most_items;
        // These do not come with the request, or may name one text several times.
        let apart = matches!(list_known.origin, Origin::OneOf(_) | Origin::Written(_));
        let shares = (!apart).then(|| most_items.saturating_mul(item.most_bytes).min(LARGEST_BODY));
        let item = Known { bytes_of_all_items: shares, ..item };
        let outside = std::mem::take(&mut self.cost);
        self.inside = Some(Inside { variable: name.clone(), item, most_items });
        let body = self.truth(body, "a macro over a list");
        self.inside = None;
        let each = std::mem::replace(&mut self.cost, outside);
        self.cost.add_for_each(each, most_items);
        (Node::Each(quantifier, Box::new(list_node), body, most_items), boolean())
    }
}

fn one_type(known: &Known) -> &'static str {
    match known.origin {
        Origin::Argument(_) => "give it one `type` in the tool's `parameters`",
        Origin::OneOf(_) => "keep constants of one type together",
        Origin::Resolved
        | Origin::Record(_)
        | Origin::Records(_)
        | Origin::Agent
        | Origin::AgentLabels
        | Origin::Run
        | Origin::Texts
        | Origin::Now
        | Origin::Vars
        | Origin::Written(_)
        | Origin::Free
        | Origin::Scalar => "let it come to values of one type",
    }
}

fn boolean() -> Known {
    Known::scalar(Types::BOOL)
}

fn constant(value: Value) -> Typed {
    let known = Known::constants(vec![value.clone()]);
    (Node::Constant(value), known)
}

fn into_constant(node: Node) -> Option<Value> {
    if let Node::Constant(value) = node { Some(value) } else { None }
}
