//! Checks the syntax tree of a condition against what is known of its variables, and compiles it.
//!
//! It goes on after a fault, so that all are found at once; what is at fault counts as a value of any type from then
//! on. While it walks it adds up what an evaluation costs at most: one step for each node, times the items for the
//! body of a macro, one for each item that `in` looks at, and one for each [`BYTES_PER_STEP`] of text that a function
//! goes through. All texts within a list together are no longer than the body of the request.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr, ListExpr, LiteralValue, SelectExpr, operators},
};
use serde_json::{Number, Value};

use crate::domain::{
    canon::Shape,
    policy::schema::{Place, Step},
};

use super::{
    ConditionFault, Reads, Scope,
    evaluate::{Arithmetic, Case, Node, NowField, Order, Quantifier, TextTest},
    known::{Known, LARGEST_BODY, Origin, Types},
    parse::Parsed,
    pattern::{Pattern, Separator},
};

/// The most steps that an evaluation may take.
pub(super) const MAX_COST: u64 = 20_000;
/// The bytes of text that a function goes through in one step.
const BYTES_PER_STEP: u64 = 256;
/// The bytes that `==`, `<`, `in` and the like compare in one step: they stop at the first difference and look at
/// many bytes at once.
const COMPARED_BYTES_PER_STEP: u64 = 4096;
/// The variables of every condition.
const VARIABLES: [&str; 7] = ["args", "resolved", "agent", "context", "run", "vars", "now"];
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
    let cost = cost.steps.saturating_add(cost.shared);
    if faults.is_empty() && cost > MAX_COST {
        faults.push(ConditionFault::whole(
            format!("the condition can take {cost} steps; at most {MAX_COST} are admitted"),
            "give lists a `maxItems` and texts a `maxLength` in the schema, or split it into several rules",
        ));
    }
    if faults.is_empty() { Ok(Checked { root, reads, cost }) } else { Err(faults) }
}

/// What an evaluation takes at most.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Steps of one evaluation; within the body of a macro, of one item.
    steps: u64,
    /// Steps that all items of a macro share.
    shared: u64,
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
        self.cost.steps = self.cost.steps.saturating_add(1);
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

    fn variable(&mut self, id: u64, name: &str) -> Typed {
        if let Some(inside) = &self.inside
            && inside.variable == name
        {
            return (Node::Item, inside.item.clone());
        }
        match name {
            "args" => (Node::Args, Known::of(Types::MAP, Origin::Argument(Vec::new()))),
            "resolved" => (Node::Resolved, Known::of(Types::MAP, Origin::Resolved)),
            "agent" => {
                self.reads.agent = true;
                (Node::Agent, Known::of(Types::MAP, Origin::Agent))
            }
            "context" => {
                self.reads.context = true;
                (Node::Context, Known { types: Types::MAP, ..Known::free() })
            }
            "run" => {
                self.reads.run = true;
                (Node::Run, Known::of(Types::MAP, Origin::Run))
            }
            "now" => {
                self.reads.now = true;
                // Only its fields are ever read, each by a node of its own.
                (Node::Constant(Value::Null), Known::of(Types::MAP, Origin::Now))
            }
            "vars" => (Node::Constant(Value::Null), Known::of(Types::MAP, Origin::Vars)),
            _ => self.refuse(
                id,
                format!("there is no variable `{name}`"),
                format!("the variables are {}; a text stands in quotation marks", VARIABLES.join(", ")),
            ),
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Typed {
        let (of, known) = self.part(&select.operand);
        self.property(id, of, &known, &select.field)
    }

    /// The property `name` of a value.
    fn property(&mut self, id: u64, of: Node, of_known: &Known, name: &str) -> Typed {
        let Some(known) = self.below(id, of_known, name) else {
            return (Node::Constant(Value::Null), Known::free());
        };
        let node = match (&of_known.origin, of) {
            (Origin::Now, _) => now_field(name).map_or(Node::Constant(Value::Null), Node::Now),
            (Origin::Vars, _) => Node::Constant(self.scope.var(name).cloned().unwrap_or(Value::Null)),
            (_, Node::Constant(Value::Object(mut map))) => Node::Constant(map.remove(name).unwrap_or(Value::Null)),
            (_, of) => Node::Property(Box::new(of), name.to_owned()),
        };
        (node, known)
    }

    /// What is known of the property `name` of a value; `None` after a fault.
    fn below(&mut self, id: u64, of: &Known, name: &str) -> Option<Known> {
        let known = match &of.origin {
            Origin::Argument(path) => {
                let mut path = path.clone();
                path.push(Step::Property(name.to_owned()));
                match self.scope.argument(&path) {
                    Place::Known(typed) => Some(Known::argument(&typed, path)),
                    Place::Open => Some(Known::undescribed_argument(path)),
                    Place::Unknown => {
                        let hint = "declare it in the tool's `parameters`, or look for a slip in its name";
                        self.fault(id, format!("the schema has no property `{}`", readable(&path)), hint);
                        None
                    }
                }
            }
            Origin::Resolved => match self.scope.resolved(name) {
                Some(shape) => {
                    self.reads.resolved.insert(name.to_owned());
                    Some(match shape {
                        Shape::Record(fields) => Known::of(Types::MAP, Origin::Record(fields)),
                        Shape::List(fields, most_items) => {
                            Known { most_items, ..Known::of(Types::LIST, Origin::Records(fields)) }
                        }
                    })
                }
                None => {
                    let hint = format!("declare it as [tools.X.arguments.{name}], or read `args.{name}`");
                    self.fault(id, format!("no argument `{name}` is declared, so it has no resolved form"), hint);
                    None
                }
            },
            Origin::Record(fields) => match fields.iter().find(|(field, _)| *field == name) {
                Some((field, field_type)) => Some(Known::field(field, *field_type)),
                None => self.no_field(id, name, fields.iter().map(|(field, _)| *field)),
            },
            Origin::Records(_) => {
                let hint = format!("ask of each item, as in `.all(x, x.{name} == ...)`, and of an empty list too");
                self.fault(id, format!("a list has no property `{name}`"), hint);
                None
            }
            Origin::Agent => match name {
                "id" => Some(Known::name()),
                "labels" => Some(Known::of(Types::MAP, Origin::AgentLabels)),
                _ => self.no_field(id, name, ["id", "labels"]),
            },
            Origin::AgentLabels => Some(Known::name()),
            Origin::Run => match name {
                "id" => Some(Known::name()),
                "labels" => Some(Known::of(Types::LIST, Origin::Texts)),
                "on_behalf_of" => Some(Known::scalar(Types::TEXT.or(Types::NULL))),
                _ => self.no_field(id, name, ["id", "labels", "on_behalf_of"]),
            },
            Origin::Now => match now_field(name) {
                Some(_) => Some(Known::scalar(Types::INT)),
                None => self.no_field(id, name, ["unix", "year", "month", "day", "weekday", "hour", "minute"]),
            },
            Origin::Vars => match self.scope.var(name) {
                Some(value) => Some(Known::constants(vec![value.clone()])),
                None => {
                    self.fault(id, format!("there is no constant `vars.{name}`"), "define it in [vars]");
                    None
                }
            },
            Origin::OneOf(values) => {
                let below: Vec<_> = values.iter().filter_map(|value| value.get(name).cloned()).collect();
                if below.is_empty() {
                    self.fault(id, format!("this constant has no property `{name}`"), "look at its place in [vars]");
                    None
                } else {
                    Some(Known::constants(below))
                }
            }
            Origin::Free => Some(Known::free()),
            Origin::Texts | Origin::Written(_) | Origin::Scalar => {
                let hint = "only objects have properties";
                self.fault(id, format!("{} has no property `{name}`", of.types.names()), hint);
                None
            }
        };
        known.map(|known| self.within_item(of, known))
    }

    fn no_field<'n>(&mut self, id: u64, name: &str, fields: impl IntoIterator<Item = &'n str>) -> Option<Known> {
        let fields: Vec<_> = fields.into_iter().collect();
        self.fault(id, format!("there is no field `{name}` here"), format!("the fields are {}", fields.join(", ")));
        None
    }

    /// What is below the item of a macro is bounded with it.
    fn within_item(&self, above: &Known, known: Known) -> Known {
        match (&self.inside, above.bytes_of_all_items) {
            (Some(inside), Some(_)) => {
                let all = inside.most_items.saturating_mul(known.most_bytes).min(LARGEST_BODY);
                Known { bytes_of_all_items: Some(all), ..known }
            }
            (Some(_) | None, Some(_) | None) => known,
        }
    }

    /// What is known of the items of a list; `None` when it has none that could be known.
    fn item_of(&self, list: &Known) -> Option<Known> {
        let item = match &list.origin {
            Origin::Argument(path) => {
                let mut path = path.clone();
                path.push(Step::Item);
                match self.scope.argument(&path) {
                    Place::Known(typed) => Known::argument(&typed, path),
                    Place::Open | Place::Unknown => Known::undescribed_argument(path),
                }
            }
            Origin::Records(fields) => Known::of(Types::MAP, Origin::Record(fields)),
            Origin::Texts => Known { types: Types::TEXT, origin: Origin::Scalar, ..list.clone() },
            Origin::OneOf(values) => {
                Known::constants(values.iter().filter_map(Value::as_array).flatten().cloned().collect())
            }
            Origin::Written(item) => Known::clone(item),
            Origin::Free => Known::free(),
            Origin::Resolved
            | Origin::Record(_)
            | Origin::Agent
            | Origin::AgentLabels
            | Origin::Run
            | Origin::Now
            | Origin::Vars
            | Origin::Scalar => return None,
        };
        Some(self.within_item(list, item))
    }

    /// Notes that the value of an argument is read, and refuses it where that must not be.
    fn note_argument(&mut self, id: u64, path: &[Step]) {
        if !self.reads.arguments.iter().any(|known| known == path) {
            self.reads.arguments.push(path.to_vec());
        }
        if let Place::Known(typed) = self.scope.argument(path)
            && typed.secret
        {
            let hint = "secret properties are never stored, so a rule on one could not be explained";
            self.fault(id, format!("`{}` is secret; a condition must not read it", readable(path)), hint);
        }
        if self.scope.loosens() {
            let replaced = (1..=path.len())
                .filter_map(|length| path.get(..length))
                .map(declared_name)
                .find(|name| self.scope.replaced_by_resolved(name));
            if let Some(name) = replaced {
                let hint = format!("read `{}` instead, the form that was checked", resolved_name(&name));
                self.fault(id, format!("a loosening rule must not read the raw value of `{name}`"), hint);
            }
        }
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
            (operators::LOGICAL_AND, None, [left, right]) => {
                let (left, right) = (self.truth(left, "`&&`"), self.truth(right, "`&&`"));
                (Node::And(left, right), boolean())
            }
            (operators::LOGICAL_OR, None, [left, right]) => {
                let (left, right) = (self.truth(left, "`||`"), self.truth(right, "`||`"));
                (Node::Or(left, right), boolean())
            }
            (operators::LOGICAL_NOT, None, [operand]) => (Node::Not(self.truth(operand, "`!`")), boolean()),
            (operators::CONDITIONAL, None, [condition, then, otherwise]) => {
                let condition = self.truth(condition, "`?:`");
                let (then, then_known) = self.branch(then);
                let (otherwise, otherwise_known) = self.branch(otherwise);
                let node = Node::If(condition, Box::new(then), Box::new(otherwise));
                (node, then_known.either(otherwise_known))
            }
            (operators::EQUALS, None, [left, right]) => (self.equality(id, left, right, true), boolean()),
            (operators::NOT_EQUALS, None, [left, right]) => (self.equality(id, left, right, false), boolean()),
            (operators::LESS, None, [left, right]) => (self.order(id, Order::Less, left, right), boolean()),
            (operators::LESS_EQUALS, None, [left, right]) => {
                (self.order(id, Order::LessOrEqual, left, right), boolean())
            }
            (operators::GREATER, None, [left, right]) => (self.order(id, Order::Greater, left, right), boolean()),
            (operators::GREATER_EQUALS, None, [left, right]) => {
                (self.order(id, Order::GreaterOrEqual, left, right), boolean())
            }
            (operators::NEGATE, None, [operand]) => {
                let (node, known) = self.value(operand);
                self.expect(operand.id, &known, Types::NUMBER, "`-`");
                (Node::Negate(Box::new(node)), number(known.types))
            }
            (operators::ADD, None, [left, right]) => self.add(id, left, right),
            (operators::SUBSTRACT, None, [left, right]) => {
                self.arithmetic(Arithmetic::Subtract, "`-`", Types::NUMBER, left, right)
            }
            (operators::MULTIPLY, None, [left, right]) => {
                self.arithmetic(Arithmetic::Multiply, "`*`", Types::NUMBER, left, right)
            }
            (operators::DIVIDE, None, [left, right]) => {
                self.arithmetic(Arithmetic::Divide, "`/`", Types::NUMBER, left, right)
            }
            (operators::MODULO, None, [left, right]) => {
                self.arithmetic(Arithmetic::Remainder, "`%`", Types::INT, left, right)
            }
            (operators::IN, None, [item, list]) => self.membership(id, item, list),
            (operators::INDEX, None, [of, index]) => self.index(id, of, index),
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
                self.text_work(&known);
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
            let hint = "look at the types on both sides";
            self.fault(id, format!("{who} takes {}; this is {}", takes.names(), known.types.names()), hint);
            return false;
        }
        if !known.free && !types.within(takes) {
            self.fault(id, format!("{who} takes {}; this may be {}", takes.names(), types.names()), one_type(known));
            return false;
        }
        true
    }

    /// Both sides of a comparison, which must be of one type that can be compared; that type, where it is known.
    fn compare(&mut self, id: u64, left: (u64, &Known), right: (u64, &Known), takes: Types, who: &str) -> Types {
        let fit = self.expect(left.0, left.1, takes, who) & self.expect(right.0, right.1, takes, who);
        let classes = [Types::BOOL, Types::NUMBER, Types::TEXT].map(|class| class.and(takes));
        let class = |known: &Known| {
            let types = known.types.without(Types::NULL);
            classes.into_iter().find(|class| types.within(*class))
        };
        if !fit {
            return Types::NONE;
        }
        for (id, known) in [left, right] {
            if !known.free && class(known).is_none() {
                let message = format!("{who} compares values of one type; this may be {}", known.types.names());
                self.fault(id, message, one_type(known));
                return Types::NONE;
            }
        }
        match (class(left.1), class(right.1)) {
            (Some(a), Some(b)) if a != b => {
                let message = format!("{who} compares {} with {}", a.names(), b.names());
                self.fault(id, message, "values of different types are never equal; look at the schema");
                Types::NONE
            }
            (Some(class), _) | (None, Some(class)) => class,
            (None, None) => takes,
        }
    }

    fn equality(&mut self, id: u64, left: &IdedExpr, right: &IdedExpr, equal: bool) -> Node {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        let null = match (&left_node, &right_node) {
            (_, Node::Constant(Value::Null)) if right_known.types == Types::NULL => {
                Some((left.id, left_node, left_known))
            }
            (Node::Constant(Value::Null), _) if left_known.types == Types::NULL => {
                Some((right.id, right_node, right_known))
            }
            _ => {
                self.compare(id, (left.id, &left_known), (right.id, &right_known), COMPARABLE, "`==`");
                self.comparison_work(&left_known, &right_known);
                let (left, right) = (Box::new(left_node), Box::new(right_node));
                return if equal { Node::Equal(left, right) } else { Node::NotEqual(left, right) };
            }
        };
        let Some((id, node, known)) = null else { return Node::Constant(Value::Null) };
        if !known.free && !known.types.meets(Types::NULL) {
            self.fault(id, "this is never null", "to ask whether a property is there, write has(x.y)");
        }
        let is_null = Node::IsNull(Box::new(node));
        if equal { is_null } else { Node::Not(Box::new(is_null)) }
    }

    fn order(&mut self, id: u64, order: Order, left: &IdedExpr, right: &IdedExpr) -> Node {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        let takes = Types::NUMBER.or(Types::TEXT);
        self.compare(id, (left.id, &left_known), (right.id, &right_known), takes, "`<`");
        self.comparison_work(&left_known, &right_known);
        Node::Order(order, Box::new(left_node), Box::new(right_node))
    }

    fn add(&mut self, id: u64, left: &IdedExpr, right: &IdedExpr) -> Typed {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        let takes = Types::NUMBER.or(Types::TEXT);
        let class = self.compare(id, (left.id, &left_known), (right.id, &right_known), takes, "`+`");
        let node = Node::Arithmetic(Arithmetic::Add, Box::new(left_node), Box::new(right_node));
        if class.within(Types::NUMBER) {
            return (node, number(left_known.types.or(right_known.types)));
        }
        let most_items = self.inside.as_ref().map_or(1, |inside| inside.most_items);
        let all =
            |known: &Known| known.bytes_of_all_items.unwrap_or_else(|| known.most_bytes.saturating_mul(most_items));
        let shared = left_known.bytes_of_all_items.is_some() || right_known.bytes_of_all_items.is_some();
        let known = Known {
            free: class != Types::TEXT,
            most_bytes: left_known.most_bytes.saturating_add(right_known.most_bytes),
            bytes_of_all_items: shared.then(|| all(&left_known).saturating_add(all(&right_known))),
            ..Known::scalar(class)
        };
        self.text_work(&known);
        (node, known)
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        who: &str,
        takes: Types,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Typed {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        self.expect(left.id, &left_known, takes, who);
        self.expect(right.id, &right_known, takes, who);
        let types = left_known.types.or(right_known.types).without(Types::NULL);
        let operator = match operator {
            Arithmetic::Divide if types.within(Types::INT) => Arithmetic::DivideWhole,
            Arithmetic::Add
            | Arithmetic::Subtract
            | Arithmetic::Multiply
            | Arithmetic::DivideWhole
            | Arithmetic::Divide
            | Arithmetic::Remainder => operator,
        };
        (Node::Arithmetic(operator, Box::new(left_node), Box::new(right_node)), number(types))
    }

    fn membership(&mut self, id: u64, item: &IdedExpr, list: &IdedExpr) -> Typed {
        let (item_node, item_known) = self.value(item);
        let (list_node, list_known) = self.value(list);
        let list_types = list_known.types.without(Types::NULL);
        if !self.expect(list.id, &list_known, Types::LIST.or(Types::MAP), "`in`") {
            return (Node::Constant(Value::Bool(false)), boolean());
        }
        if list_types.within(Types::MAP) {
            self.expect(item.id, &item_known, Types::TEXT, "`in` an object");
            return (Node::In(Box::new(item_node), Box::new(list_node), 0), boolean());
        }
        if !list_known.free {
            self.expect(list.id, &list_known, Types::LIST, "`in`");
        }
        let most = list_known.most_items;
        match self.item_of(&list_known) {
            Some(known) if known.types == Types::NONE => {
                self.fault(list.id, "nothing is in an empty list", "put something into it, or write `false`");
            }
            Some(known) => {
                self.compare(id, (item.id, &item_known), (list.id, &known), COMPARABLE, "`in`");
                if let Node::Constant(Value::Array(values)) = &list_node
                    && let Some(mut texts) = values.iter().map(text).collect::<Option<Vec<_>>>()
                {
                    texts.sort_unstable();
                    texts.dedup();
                    self.comparison_work(&item_known, &known);
                    return (Node::InTexts(Box::new(item_node), texts), boolean());
                }
                let bytes = most.saturating_mul(known.most_bytes.min(item_known.most_bytes)).min(LARGEST_BODY);
                let steps = most.saturating_add(bytes / COMPARED_BYTES_PER_STEP);
                self.cost.steps = self.cost.steps.saturating_add(steps);
            }
            None => {}
        }
        (Node::In(Box::new(item_node), Box::new(list_node), most), boolean())
    }

    fn index(&mut self, id: u64, of: &IdedExpr, index: &IdedExpr) -> Typed {
        let (of_node, of_known) = self.part(of);
        let (index_node, index_known) = self.value(index);
        if let Node::Constant(Value::String(name)) = &index_node {
            return self.property(id, of_node, &of_known, name);
        }
        let list = of_known.types.meets(Types::LIST);
        let known = match &of_known.origin {
            Origin::Free => {
                self.expect(index.id, &index_known, Types::INT.or(Types::TEXT), "an index");
                Some(Known::free())
            }
            Origin::AgentLabels => {
                self.expect(index.id, &index_known, Types::TEXT, "an index of labels");
                Some(Known::name())
            }
            Origin::OneOf(values) if !list => {
                self.expect(index.id, &index_known, Types::TEXT, "an index of an object");
                let below: Vec<_> = values.iter().filter_map(Value::as_object).flat_map(|map| map.values()).collect();
                (!below.is_empty()).then(|| Known::constants(below.into_iter().cloned().collect()))
            }
            Origin::Argument(_) | Origin::OneOf(_) | Origin::Records(_) | Origin::Texts | Origin::Written(_)
                if list =>
            {
                self.expect(index.id, &index_known, Types::INT, "an index of a list");
                if matches!(&index_node, Node::Constant(value) if value.as_i64().is_some_and(|index| index < 0)) {
                    self.fault(index.id, "a list has no negative positions", "the first item is at 0");
                }
                self.item_of(&of_known)
            }
            Origin::Argument(_)
            | Origin::Resolved
            | Origin::Record(_)
            | Origin::Records(_)
            | Origin::Agent
            | Origin::Run
            | Origin::Texts
            | Origin::Now
            | Origin::Vars
            | Origin::OneOf(_)
            | Origin::Written(_)
            | Origin::Scalar => None,
        };
        let Some(known) = known else {
            return self.refuse(id, "this cannot be indexed so", "write a property's name in quotation marks");
        };
        (Node::Index(Box::new(of_node), Box::new(index_node)), known)
    }

    fn has(&mut self, id: u64, of: &IdedExpr) -> Typed {
        let Expr::Select(select) = &of.expr else {
            return self.refuse(id, "`has` takes a property", "write has(x.y); with odd names has(x.`y-z`)");
        };
        self.cost.steps = self.cost.steps.saturating_add(1);
        let (of_node, of_known) = self.part(&select.operand);
        if let Some(known) = self.below(of.id, &of_known, &select.field)
            && let Origin::Argument(path) = &known.origin
        {
            self.note_argument(of.id, path);
        }
        let node = if matches!(of_known.origin, Origin::Now | Origin::Vars) {
            // A field or constant that is not there was a fault.
            Node::Constant(Value::Bool(true))
        } else {
            Node::Has(Box::new(of_node), select.field.clone())
        };
        (node, boolean())
    }

    fn text_test(&mut self, test: TextTest, who: &str, text: &IdedExpr, part: &IdedExpr) -> Typed {
        let (text_node, text_known) = self.value(text);
        let (part_node, part_known) = self.value(part);
        self.expect(text.id, &text_known, Types::TEXT, who);
        self.expect(part.id, &part_known, Types::TEXT, who);
        match test {
            TextTest::Contains => {
                self.text_work(&text_known);
                self.text_work(&part_known);
            }
            TextTest::StartsWith | TextTest::EndsWith => self.comparison_work(&text_known, &part_known),
        }
        (Node::Text(test, Box::new(text_node), Box::new(part_node)), boolean())
    }

    fn change_case(&mut self, case: Case, who: &str, text: &IdedExpr) -> Typed {
        let (node, known) = self.value(text);
        self.expect(text.id, &known, Types::TEXT, who);
        self.text_work(&known);
        (Node::ChangeCase(case, Box::new(node)), Known { types: Types::TEXT, origin: Origin::Scalar, ..known })
    }

    fn matches(
        &mut self,
        text: &IdedExpr,
        pattern: &IdedExpr,
        who: &str,
        compile: impl Fn(&str, Separator) -> Result<Pattern, String>,
    ) -> Typed {
        let (node, known) = self.value(text);
        self.expect(text.id, &known, Types::TEXT, &format!("`{who}`"));
        self.text_work(&known);
        let Expr::Literal(LiteralValue::String(source)) = &pattern.expr else {
            let message = format!("the pattern of `{who}` must be a text written out");
            return self.refuse(pattern.id, message, "it is compiled when the policy is loaded");
        };
        let separator = if known.host { Separator::Dot } else { Separator::Slash };
        match compile(source.inner(), separator) {
            Ok(pattern) => (Node::Matches(Box::new(node), Box::new(pattern)), boolean()),
            Err(reason) => {
                let hint = "look-around, back-references, Unicode word boundaries and very large counts are not taken";
                self.refuse(pattern.id, format!("the pattern does not compile: {reason}"), hint)
            }
        }
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
        let steps = each.steps.saturating_add(1).saturating_mul(most_items);
        self.cost.steps = self.cost.steps.saturating_add(steps);
        self.cost.shared = self.cost.shared.saturating_add(each.shared);
        (Node::Each(quantifier, Box::new(list_node), body, most_items), boolean())
    }

    fn text_work(&mut self, text: &Known) {
        self.work(text.most_bytes, text.bytes_of_all_items, BYTES_PER_STEP);
    }

    fn comparison_work(&mut self, left: &Known, right: &Known) {
        let shared = match (left.bytes_of_all_items, right.bytes_of_all_items) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (shared, None) | (None, shared) => shared,
        };
        self.work(left.most_bytes.min(right.most_bytes), shared, COMPARED_BYTES_PER_STEP);
    }

    /// Adds the steps to go through a text of at most `bytes`, of at most `all` over all items of the macro around.
    fn work(&mut self, bytes: u64, all: Option<u64>, bytes_per_step: u64) {
        match (&self.inside, all) {
            (Some(inside), Some(all)) => {
                let all = inside.most_items.saturating_mul(bytes).min(all);
                self.cost.shared = self.cost.shared.saturating_add(all / bytes_per_step);
            }
            (Some(_) | None, Some(_) | None) => {
                self.cost.steps = self.cost.steps.saturating_add(bytes / bytes_per_step);
            }
        }
    }
}

/// How to mend a value of several types.
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

fn number(of: Types) -> Known {
    let whole = of.without(Types::NULL).within(Types::INT);
    Known::scalar(if whole { Types::INT } else { Types::NUMBER })
}

fn constant(value: Value) -> Typed {
    let known = Known::constants(vec![value.clone()]);
    (Node::Constant(value), known)
}

fn into_constant(node: Node) -> Option<Value> {
    if let Node::Constant(value) = node { Some(value) } else { None }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn now_field(name: &str) -> Option<NowField> {
    Some(match name {
        "unix" => NowField::Unix,
        "year" => NowField::Year,
        "month" => NowField::Month,
        "day" => NowField::Day,
        "weekday" => NowField::Weekday,
        "hour" => NowField::Hour,
        "minute" => NowField::Minute,
        _ => return None,
    })
}

/// A place in the arguments as a condition would write it.
fn readable(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Property(name) => format!(".{name}"),
        Step::Item => "[]".to_owned(),
    });
    format!("args{}", steps.collect::<String>())
}

/// A place in the arguments as the key of a declaration: a property's name, or a JSON Pointer with `*`.
fn declared_name(path: &[Step]) -> String {
    if let [Step::Property(name)] = path {
        return name.clone();
    }
    let steps = path.iter().map(|step| match step {
        Step::Property(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Step::Item => "/*".to_owned(),
    });
    steps.collect()
}

fn resolved_name(argument: &str) -> String {
    if argument.chars().all(|character| character.is_alphanumeric() || character == '_') {
        format!("resolved.{argument}")
    } else {
        format!("resolved[{argument:?}]")
    }
}
