//! Evaluates a compiled condition: strictly from left to right, without absorbing an error, in bounded work.
//!
//! Values are borrowed from the call's JSON as they are; nothing is converted before it is read. It trusts the
//! bounds that were checked when the policy was loaded and knows nothing of source text or schemas.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Map, Number, Value};

use super::{Failure, Inputs, Request, RequestedValue, pattern::Pattern};

/// One part of a compiled condition.
pub(super) enum Node {
    /// A literal, or what stands in `[vars]`.
    Constant(Value),
    /// A list written out whose elements are not all constant.
    List(Vec<Node>),
    Args,
    Resolved,
    Agent,
    Run,
    Context,
    Now(NowField),
    /// The variable of the macro around it; there is only ever one.
    Item,
    Property(Box<Node>, String),
    /// By a position in a list or a key of a map.
    Index(Box<Node>, Box<Node>),
    Has(Box<Node>, String),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    Equal(Box<Node>, Box<Node>),
    NotEqual(Box<Node>, Box<Node>),
    /// Whether a value is null, which no other comparison takes.
    IsNull(Box<Node>),
    Order(Order, Box<Node>, Box<Node>),
    Negate(Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// Whether a value is in a list of at most this many items, or a key in a map.
    In(Box<Node>, Box<Node>, u64),
    /// Whether a text is in a sorted list of constants.
    InTexts(Box<Node>, Vec<String>),
    Size(Box<Node>),
    Text(TextTest, Box<Node>, Box<Node>),
    ChangeCase(Case, Box<Node>),
    Matches(Box<Node>, Box<Pattern>),
    Requested(Box<Node>),
    /// A macro over a list of at most this many items.
    Each(Quantifier, Box<Node>, Box<Node>, u64),
}

#[derive(Clone, Copy)]
pub(super) enum NowField {
    Unix,
    Year,
    Month,
    Day,
    Weekday,
    Hour,
    Minute,
}

#[derive(Clone, Copy)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Of two whole numbers, toward zero.
    DivideWhole,
    /// Of numbers that may have a fraction.
    Divide,
    Remainder,
}

#[derive(Clone, Copy)]
pub(super) enum TextTest {
    Contains,
    StartsWith,
    EndsWith,
}

#[derive(Clone, Copy)]
pub(super) enum Case {
    Lower,
    Upper,
}

#[derive(Clone, Copy)]
pub(super) enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// A value while a condition is evaluated.
enum Val<'v> {
    Null,
    Bool(bool),
    Number(Num),
    Text(Cow<'v, str>),
    List(&'v [Value]),
    /// A list written out in the condition; its items are scalars.
    Written(Vec<Val<'v>>),
    Map(&'v Map<String, Value>),
}

/// A number; a double is always finite.
#[derive(Clone, Copy)]
enum Num {
    Int(i64),
    Double(f64),
}

impl Num {
    /// Whole numbers are `int`, `1.0` too, as far as they fit; all others `double`.
    fn of(number: &Number) -> Result<Self, Failure> {
        if let Some(int) = number.as_i64() {
            return Ok(Self::Int(int));
        }
        let double = number.as_f64().ok_or(Failure::Overflow)?;
        Ok(whole(double).map_or(Self::Double(double), Self::Int))
    }

    fn double(self) -> f64 {
        match self {
            // Rounds beyond 2^53, as every conversion of an integer to a double does.
            Self::Int(int) => int as f64,
            Self::Double(double) => double,
        }
    }

    /// Exact, also between a whole number and a double.
    fn compare(self, other: Self) -> Result<Ordering, Failure> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Ok(a.cmp(&b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b).ok_or(Failure::Internal),
            (Self::Int(a), Self::Double(b)) => compare_int_with_double(a, b),
            (Self::Double(a), Self::Int(b)) => compare_int_with_double(b, a).map(Ordering::reverse),
        }
    }
}

/// 2^63, the first double above every `i64`.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// `double` as an integer, when it is one and fits.
fn whole(double: f64) -> Option<i64> {
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&double) && double.fract().abs() <= 0.0;
    fits.then_some(double as i64)
}

fn compare_int_with_double(int: i64, double: f64) -> Result<Ordering, Failure> {
    if double >= TWO_TO_63 {
        return Ok(Ordering::Less);
    }
    if double < -TWO_TO_63 {
        return Ok(Ordering::Greater);
    }
    let truncated = double.trunc();
    let fraction = 0.0_f64.partial_cmp(&(double - truncated)).ok_or(Failure::Internal)?;
    Ok(int.cmp(&(truncated as i64)).then(fraction))
}

impl<'v> Val<'v> {
    fn of(value: &'v Value) -> Result<Self, Failure> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => Self::Number(Num::of(number)?),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::List(items),
            Value::Object(map) => Self::Map(map),
        })
    }

    /// A scalar again, borrowing its text; a list or map is copied as the reference it is.
    fn again(&'v self) -> Result<Self, Failure> {
        Ok(match self {
            Self::Null => Self::Null,
            Self::Bool(truth) => Self::Bool(*truth),
            Self::Number(number) => Self::Number(*number),
            Self::Text(text) => Self::Text(Cow::Borrowed(text)),
            Self::List(items) => Self::List(items),
            Self::Map(map) => Self::Map(map),
            Self::Written(_) => return Err(Failure::WrongType),
        })
    }

    /// What failed when a value of another type was needed.
    fn unfit(&self) -> Failure {
        match self {
            Self::Null => Failure::MissingValue,
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Written(_) | Self::Map(_) => {
                Failure::WrongType
            }
        }
    }

    fn truth(&self) -> Result<bool, Failure> {
        if let Self::Bool(truth) = self { Ok(*truth) } else { Err(self.unfit()) }
    }

    fn number(&self) -> Result<Num, Failure> {
        if let Self::Number(number) = self { Ok(*number) } else { Err(self.unfit()) }
    }

    fn into_text(self) -> Result<Cow<'v, str>, Failure> {
        if let Self::Text(text) = self { Ok(text) } else { Err(self.unfit()) }
    }

    fn text(&self) -> Result<&str, Failure> {
        if let Self::Text(text) = self { Ok(text) } else { Err(self.unfit()) }
    }

    fn map(&self) -> Result<&'v Map<String, Value>, Failure> {
        if let Self::Map(map) = self { Ok(map) } else { Err(self.unfit()) }
    }

    /// Equality of two scalars of one type; anything else is a failure, never `false`.
    fn equals(&self, other: &Self) -> Result<bool, Failure> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Ok(a == b),
            (Self::Number(a), Self::Number(b)) => Ok(a.compare(*b)?.is_eq()),
            (Self::Text(a), Self::Text(b)) => Ok(a == b),
            (Self::Null, _) | (_, Self::Null) => Err(Failure::MissingValue),
            (Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Written(_) | Self::Map(_), _) => {
                Err(Failure::WrongType)
            }
        }
    }

    /// Order of two numbers or, by code point, two texts.
    fn compare(&self, other: &Self) -> Result<Ordering, Failure> {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.compare(*b),
            (Self::Text(a), Self::Text(b)) => Ok(a.cmp(b)),
            (Self::Null, _) | (_, Self::Null) => Err(Failure::MissingValue),
            (Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Written(_) | Self::Map(_), _) => {
                Err(Failure::WrongType)
            }
        }
    }
}

/// The items of a list.
enum Items<'v> {
    Json(&'v [Value]),
    Written(Vec<Val<'v>>),
}

impl<'v> Items<'v> {
    fn of(list: Val<'v>) -> Result<Self, Failure> {
        match list {
            Val::List(items) => Ok(Self::Json(items)),
            Val::Written(items) => Ok(Self::Written(items)),
            Val::Null | Val::Bool(_) | Val::Number(_) | Val::Text(_) | Val::Map(_) => Err(list.unfit()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Written(items) => items.len(),
        }
    }

    fn get(&self, index: usize) -> Result<Val<'_>, Failure> {
        match self {
            Self::Json(items) => Val::of(items.get(index).ok_or(Failure::MissingValue)?),
            Self::Written(items) => items.get(index).ok_or(Failure::MissingValue)?.again(),
        }
    }

    /// Refuses a list that is longer than the one the cost was computed with.
    fn at_most(self, most: u64) -> Result<Self, Failure> {
        match u64::try_from(self.len()) {
            Ok(length) if length <= most => Ok(self),
            Ok(_) | Err(_) => Err(Failure::ListTooLong),
        }
    }
}

/// Whether the condition holds.
pub(super) fn holds(root: &Node, inputs: &Inputs<'_>) -> Result<bool, Failure> {
    let scope = Scope { inputs, item: None };
    match scope.value(root)? {
        Val::Bool(truth) => Ok(truth),
        Val::Null => Err(Failure::MissingValue),
        Val::Number(_) | Val::Text(_) | Val::List(_) | Val::Written(_) | Val::Map(_) => Err(Failure::NotBoolean),
    }
}

#[derive(Clone, Copy)]
struct Scope<'v> {
    inputs: &'v Inputs<'v>,
    item: Option<&'v Val<'v>>,
}

impl<'v> Scope<'v> {
    fn value(self, node: &'v Node) -> Result<Val<'v>, Failure> {
        match node {
            Node::Constant(value) => Val::of(value),
            Node::List(elements) => self.written(elements),
            Node::Args => Ok(Val::Map(self.inputs.args)),
            Node::Resolved => Ok(Val::Map(self.inputs.resolved)),
            Node::Agent => Val::of(self.inputs.agent),
            Node::Run => Val::of(self.inputs.run.ok_or(Failure::MissingValue)?),
            Node::Context => Val::of(self.inputs.context.ok_or(Failure::MissingValue)?),
            Node::Now(field) => self.now(*field),
            Node::Item => self.item.ok_or(Failure::Internal)?.again(),
            Node::Property(of, name) => {
                Val::of(self.value(of)?.map()?.get(name.as_str()).ok_or(Failure::MissingValue)?)
            }
            Node::Index(of, index) => self.index(of, index),
            Node::Has(of, name) => Ok(Val::Bool(self.value(of)?.map()?.contains_key(name.as_str()))),
            Node::Not(operand) => Ok(Val::Bool(!self.truth(operand)?)),
            Node::And(left, right) => Ok(Val::Bool(self.truth(left)? && self.truth(right)?)),
            Node::Or(left, right) => Ok(Val::Bool(self.truth(left)? || self.truth(right)?)),
            Node::If(condition, then, otherwise) => self.value(if self.truth(condition)? { then } else { otherwise }),
            Node::Equal(left, right) => Ok(Val::Bool(self.value(left)?.equals(&self.value(right)?)?)),
            Node::NotEqual(left, right) => Ok(Val::Bool(!self.value(left)?.equals(&self.value(right)?)?)),
            Node::IsNull(operand) => Ok(Val::Bool(matches!(self.value(operand)?, Val::Null))),
            Node::Order(order, left, right) => {
                let ordering = self.value(left)?.compare(&self.value(right)?)?;
                Ok(Val::Bool(match order {
                    Order::Less => ordering.is_lt(),
                    Order::LessOrEqual => ordering.is_le(),
                    Order::Greater => ordering.is_gt(),
                    Order::GreaterOrEqual => ordering.is_ge(),
                }))
            }
            Node::Negate(operand) => Ok(Val::Number(match self.value(operand)?.number()? {
                Num::Int(int) => Num::Int(int.checked_neg().ok_or(Failure::Overflow)?),
                Num::Double(double) => Num::Double(-double),
            })),
            Node::Arithmetic(operator, left, right) => {
                let left = self.value(left)?;
                arithmetic(*operator, left, self.value(right)?)
            }
            Node::In(item, list, most) => self.is_in(item, list, *most),
            Node::InTexts(item, texts) => {
                let item = self.value(item)?;
                let item = item.text()?;
                Ok(Val::Bool(texts.binary_search_by(|text| text.as_str().cmp(item)).is_ok()))
            }
            Node::Size(operand) => self.size(operand),
            Node::Text(test, text, part) => {
                let text = self.value(text)?;
                let part = self.value(part)?;
                let (text, part) = (text.text()?, part.text()?);
                Ok(Val::Bool(match test {
                    TextTest::Contains => text.contains(part),
                    TextTest::StartsWith => text.starts_with(part),
                    TextTest::EndsWith => text.ends_with(part),
                }))
            }
            Node::ChangeCase(case, text) => {
                let mut text = self.value(text)?.into_text()?.into_owned();
                match case {
                    Case::Lower => text.make_ascii_lowercase(),
                    Case::Upper => text.make_ascii_uppercase(),
                }
                Ok(Val::Text(Cow::Owned(text)))
            }
            Node::Matches(text, pattern) => Ok(Val::Bool(pattern.matches(self.value(text)?.text()?))),
            Node::Requested(value) => self.requested(value),
            Node::Each(quantifier, list, body, most) => self.each(*quantifier, list, body, *most),
        }
    }

    fn truth(self, node: &'v Node) -> Result<bool, Failure> {
        self.value(node)?.truth()
    }

    fn written(self, elements: &'v [Node]) -> Result<Val<'v>, Failure> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let item = self.value(element)?;
            match item {
                Val::Bool(_) | Val::Number(_) | Val::Text(_) => items.push(item),
                Val::Null | Val::List(_) | Val::Written(_) | Val::Map(_) => return Err(item.unfit()),
            }
        }
        Ok(Val::Written(items))
    }

    fn now(self, field: NowField) -> Result<Val<'v>, Failure> {
        let now = self.inputs.now.calendar().ok_or(Failure::Overflow)?;
        Ok(Val::Number(Num::Int(match field {
            NowField::Unix => now.unix,
            NowField::Year => now.year,
            NowField::Month => now.month,
            NowField::Day => now.day,
            NowField::Weekday => now.weekday,
            NowField::Hour => now.hour,
            NowField::Minute => now.minute,
        })))
    }

    fn index(self, of: &'v Node, index: &'v Node) -> Result<Val<'v>, Failure> {
        let of = self.value(of)?;
        let index = self.value(index)?;
        match of {
            Val::Map(map) => Val::of(map.get(index.text()?).ok_or(Failure::MissingValue)?),
            Val::List(items) => Val::of(items.get(position(&index)?).ok_or(Failure::MissingValue)?),
            Val::Written(items) => items.into_iter().nth(position(&index)?).ok_or(Failure::MissingValue),
            Val::Null | Val::Bool(_) | Val::Number(_) | Val::Text(_) => Err(of.unfit()),
        }
    }

    fn is_in(self, item: &'v Node, list: &'v Node, most: u64) -> Result<Val<'v>, Failure> {
        let item = self.value(item)?;
        let list = self.value(list)?;
        if let Val::Map(map) = list {
            return Ok(Val::Bool(map.contains_key(item.text()?)));
        }
        match item {
            Val::Bool(_) | Val::Number(_) | Val::Text(_) => {}
            Val::Null | Val::List(_) | Val::Written(_) | Val::Map(_) => return Err(item.unfit()),
        }
        let items = Items::of(list)?.at_most(most)?;
        for index in 0..items.len() {
            if item.equals(&items.get(index)?)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }

    fn size(self, operand: &'v Node) -> Result<Val<'v>, Failure> {
        let operand = self.value(operand)?;
        let size = match &operand {
            Val::Text(text) => text.chars().count(),
            Val::List(items) => items.len(),
            Val::Written(items) => items.len(),
            Val::Map(map) => map.len(),
            Val::Null | Val::Bool(_) | Val::Number(_) => return Err(operand.unfit()),
        };
        Ok(Val::Number(Num::Int(i64::try_from(size).map_err(|_| Failure::Overflow)?)))
    }

    fn requested(self, value: &'v Node) -> Result<Val<'v>, Failure> {
        let value = self.value(value)?;
        let wanted = match &value {
            Val::Text(text) if text.trim().is_empty() => return Err(Failure::MissingValue),
            Val::Text(text) => RequestedValue::Text(text),
            Val::Number(Num::Int(int)) => RequestedValue::Int(*int),
            Val::Number(Num::Double(double)) => RequestedValue::Double(*double),
            Val::Null | Val::Bool(_) | Val::List(_) | Val::Written(_) | Val::Map(_) => return Err(value.unfit()),
        };
        match self.inputs.request {
            Request::NotGathered => Err(Failure::MissingValue),
            Request::None => Ok(Val::Bool(false)),
            Request::Made(names) => Ok(Val::Bool(names(wanted))),
        }
    }

    fn each(self, quantifier: Quantifier, list: &'v Node, body: &'v Node, most: u64) -> Result<Val<'v>, Failure> {
        let items = Items::of(self.value(list)?)?.at_most(most)?;
        let mut holding = 0_u64;
        for index in 0..items.len() {
            let item = items.get(index)?;
            let holds = Scope { inputs: self.inputs, item: Some(&item) }.truth(body)?;
            match quantifier {
                Quantifier::All if !holds => return Ok(Val::Bool(false)),
                Quantifier::Exists if holds => return Ok(Val::Bool(true)),
                Quantifier::All | Quantifier::Exists | Quantifier::ExistsOne => holding += u64::from(holds),
            }
        }
        Ok(Val::Bool(match quantifier {
            Quantifier::All => true,
            Quantifier::Exists => false,
            Quantifier::ExistsOne => holding == 1,
        }))
    }
}

fn position(index: &Val<'_>) -> Result<usize, Failure> {
    match index.number()? {
        Num::Int(int) => usize::try_from(int).map_err(|_| Failure::MissingValue),
        Num::Double(_) => Err(Failure::WrongType),
    }
}

fn arithmetic<'v>(operator: Arithmetic, left: Val<'v>, right: Val<'v>) -> Result<Val<'v>, Failure> {
    if let (Arithmetic::Add, Val::Text(a)) = (operator, &left) {
        return Ok(Val::Text(Cow::Owned([a, right.text()?].concat())));
    }
    let (left, right) = (left.number()?, right.number()?);
    let result = match (operator, left, right) {
        (Arithmetic::Add, Num::Int(a), Num::Int(b)) => Num::Int(a.checked_add(b).ok_or(Failure::Overflow)?),
        (Arithmetic::Subtract, Num::Int(a), Num::Int(b)) => Num::Int(a.checked_sub(b).ok_or(Failure::Overflow)?),
        (Arithmetic::Multiply, Num::Int(a), Num::Int(b)) => Num::Int(a.checked_mul(b).ok_or(Failure::Overflow)?),
        (Arithmetic::DivideWhole, Num::Int(a), Num::Int(b)) => Num::Int(a.checked_div(b).ok_or(Failure::Overflow)?),
        (Arithmetic::Remainder, Num::Int(a), Num::Int(b)) => Num::Int(a.checked_rem(b).ok_or(Failure::Overflow)?),
        (Arithmetic::Add, a, b) => Num::Double(a.double() + b.double()),
        (Arithmetic::Subtract, a, b) => Num::Double(a.double() - b.double()),
        (Arithmetic::Multiply, a, b) => Num::Double(a.double() * b.double()),
        (Arithmetic::Divide, a, b) => Num::Double(a.double() / b.double()),
        (Arithmetic::DivideWhole | Arithmetic::Remainder, _, _) => return Err(Failure::WrongType),
    };
    match result {
        // Dividing by zero ends here too.
        Num::Double(double) if !double.is_finite() => Err(Failure::Overflow),
        Num::Int(_) | Num::Double(_) => Ok(Val::Number(result)),
    }
}
