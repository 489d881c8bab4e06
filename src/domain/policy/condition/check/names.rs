//! The names in a condition: variables, what stands below a value, and what must not be read.

use cel::{
    IdedExpr,
    common::ast::{Expr, SelectExpr},
};
use serde_json::Value;

use crate::domain::{
    canon::Shape,
    policy::{
        condition::{
            evaluate::{Node, NowField},
            known::{Known, LARGEST_BODY, Origin, Types},
        },
        schema::{Place, Step},
    },
};

use super::{Checker, Typed, boolean};

/// The variables of every condition.
pub(super) const VARIABLES: [&str; 7] = ["args", "resolved", "agent", "context", "run", "vars", "now"];

impl Checker<'_> {
    pub(super) fn variable(&mut self, id: u64, name: &str) -> Typed {
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

    pub(super) fn select(&mut self, id: u64, select: &SelectExpr) -> Typed {
        let (of, known) = self.part(&select.operand);
        self.property(id, of, &known, &select.field)
    }

    /// The property `name` of a value.
    pub(super) fn property(&mut self, id: u64, of: Node, of_known: &Known, name: &str) -> Typed {
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
    pub(super) fn below(&mut self, id: u64, of: &Known, name: &str) -> Option<Known> {
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
    pub(super) fn item_of(&self, list: &Known) -> Option<Known> {
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
    pub(super) fn note_argument(&mut self, id: u64, path: &[Step]) {
        if !self.reads.arguments.iter().any(|known| known == path) {
            self.reads.arguments.push(path.to_vec());
        }
        if let Place::Known(typed) = self.scope.argument(path)
            && typed.secret
        {
            let hint = "secret properties are never stored, so a rule on one could not be explained";
            self.fault(id, format!("`{}` is secret; a condition must not read it", readable(path)), hint);
        }
        self.refuse_raw(id, path);
    }

    /// Refuses the raw value of an argument with a kind in a rule that loosens.
    pub(super) fn refuse_raw(&mut self, id: u64, path: &[Step]) {
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

    pub(super) fn index(&mut self, id: u64, of: &IdedExpr, index: &IdedExpr) -> Typed {
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

    pub(super) fn has(&mut self, id: u64, of: &IdedExpr) -> Typed {
        let Expr::Select(select) = &of.expr else {
            return self.refuse(id, "`has` takes a property", "write has(x.y); with odd names has(x.`y-z`)");
        };
        self.cost.add(1);
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

fn readable(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Property(name) => format!(".{name}"),
        Step::Item => "[]".to_owned(),
    });
    format!("args{}", steps.collect::<String>())
}

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
