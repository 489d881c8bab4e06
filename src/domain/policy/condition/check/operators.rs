//! Operators and functions: the types they take, and what they come to.

use cel::{
    IdedExpr,
    common::ast::{Expr, LiteralValue},
};
use serde_json::Value;

use crate::domain::policy::condition::{
    evaluate::{Arithmetic, Case, Node, Order, TextTest},
    known::{Known, LARGEST_BODY, Origin, Types},
    pattern::{Pattern, Separator},
};

use super::{COMPARABLE, Checker, Typed, boolean, cost::COMPARED_BYTES_PER_STEP, one_type};

impl Checker<'_> {
    /// Both sides of a comparison, which must be of one type that can be compared; that type, where it is known.
    pub(super) fn compare(
        &mut self,
        id: u64,
        left: (u64, &Known),
        right: (u64, &Known),
        takes: Types,
        who: &str,
    ) -> Types {
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

    pub(super) fn equality(&mut self, id: u64, left: &IdedExpr, right: &IdedExpr, equal: bool) -> Node {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        if right_known.types == Types::NULL {
            return self.comparison_with_null(left.id, left_node, &left_known, equal);
        }
        if left_known.types == Types::NULL {
            return self.comparison_with_null(right.id, right_node, &right_known, equal);
        }
        self.compare(id, (left.id, &left_known), (right.id, &right_known), COMPARABLE, "`==`");
        self.comparison_work(&left_known, &right_known);
        let (left, right) = (Box::new(left_node), Box::new(right_node));
        if equal { Node::Equal(left, right) } else { Node::NotEqual(left, right) }
    }

    fn comparison_with_null(&mut self, id: u64, node: Node, known: &Known, equal: bool) -> Node {
        if !known.free && !known.types.meets(Types::NULL) {
            self.fault(id, "this is never null", "to ask whether a property is there, write has(x.y)");
        }
        let is_null = Node::IsNull(Box::new(node));
        if equal { is_null } else { Node::Not(Box::new(is_null)) }
    }

    pub(super) fn order(&mut self, id: u64, order: Order, left: &IdedExpr, right: &IdedExpr) -> Node {
        let (left_node, left_known) = self.value(left);
        let (right_node, right_known) = self.value(right);
        let takes = Types::NUMBER.or(Types::TEXT);
        self.compare(id, (left.id, &left_known), (right.id, &right_known), takes, "`<`");
        self.comparison_work(&left_known, &right_known);
        Node::Order(order, Box::new(left_node), Box::new(right_node))
    }

    pub(super) fn add(&mut self, id: u64, left: &IdedExpr, right: &IdedExpr) -> Typed {
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

    pub(super) fn arithmetic(
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

    pub(super) fn membership(&mut self, id: u64, item: &IdedExpr, list: &IdedExpr) -> Typed {
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
                if let Origin::Argument(path) = &known.origin {
                    // The items are read, and not the list alone.
                    self.refuse_raw(list.id, path);
                }
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
                self.cost.add(most.saturating_add(bytes / COMPARED_BYTES_PER_STEP));
            }
            None => {}
        }
        (Node::In(Box::new(item_node), Box::new(list_node), most), boolean())
    }

    pub(super) fn text_test(&mut self, test: TextTest, who: &str, text: &IdedExpr, part: &IdedExpr) -> Typed {
        let (text_node, text_known) = self.value(text);
        let (part_node, part_known) = self.value(part);
        self.expect(text.id, &text_known, Types::TEXT, who);
        self.expect(part.id, &part_known, Types::TEXT, who);
        match test {
            TextTest::Contains => {
                self.search_work(&text_known);
                self.search_work(&part_known);
            }
            TextTest::StartsWith | TextTest::EndsWith => self.comparison_work(&text_known, &part_known),
        }
        (Node::Text(test, Box::new(text_node), Box::new(part_node)), boolean())
    }

    pub(super) fn change_case(&mut self, case: Case, who: &str, text: &IdedExpr) -> Typed {
        let (node, known) = self.value(text);
        self.expect(text.id, &known, Types::TEXT, who);
        self.text_work(&known);
        (Node::ChangeCase(case, Box::new(node)), Known { types: Types::TEXT, origin: Origin::Scalar, ..known })
    }

    pub(super) fn matches(
        &mut self,
        text: &IdedExpr,
        pattern: &IdedExpr,
        who: &str,
        compile: impl Fn(&str, Separator) -> Result<Pattern, String>,
    ) -> Typed {
        let (node, known) = self.value(text);
        self.expect(text.id, &known, Types::TEXT, &format!("`{who}`"));
        self.search_work(&known);
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
}

pub(super) fn number(of: Types) -> Known {
    let whole = of.without(Types::NULL).within(Types::INT);
    Known::scalar(if whole { Types::INT } else { Types::NUMBER })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
