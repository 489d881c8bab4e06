//! The kind `sql`: what a text of SQL does, and the tables and functions it names. It runs nothing.
//!
//! Grammar: the dialects of `sqlparser` for PostgreSQL, MySQL, SQLite and SQL Server, and a generic one that takes
//! only what these read alike. "read" is a proof over the whole syntax tree: one statement, a query without anything
//! that writes, locks or leaves the database, calling only functions that are known to be pure. Whatever is not
//! proved is `write`, `ddl` or `other`; what does not parse is `other`. Nothing is refused but an empty text and NUL:
//! SQL is judged by rules, and `other` is the strictest answer.
//!
//! A parser that is not the database's own can be led to see a string or comment where the database sees code. What
//! the lexers are known to read differently (backslashes before quotes, conditional and nested comments, `#`, `$` and
//! `[` outside their dialects, lone carriage returns, SQL Server's statements without separators) is therefore never
//! read, whatever the tree says. See `docs/kinds.md`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::{Map, Value, json};
use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CopySource, CopyTarget, DataType, Expr, Function, Ident, ObjectName,
    ObjectNamePart, Query, Select, SetExpr, Statement, TableFactor, TypedString, Visit, Visitor,
};
use sqlparser::dialect::{Dialect, GenericDialect, MsSqlDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::characters::deceives;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The longest text that is parsed, in bytes; what is longer is `other`.
const LONGEST_SQL: usize = 64 * 1024;
/// The most operators in one text. A chain of them makes a tree as deep, and dropping that tree recurses.
const MOST_OPERATORS: usize = 800;
/// The deepest brackets: the parser tries some of them in several ways.
const DEEPEST_BRACKETS: usize = 24;
/// Stands in `tables` and `functions` when not all of them are known, so that no rule about all of them holds.
const UNKNOWN: &str = "(unknown)";

/// Functions that only compute, in any of the dialects that have them. Named without schema; a schema makes another
/// function of it. None reads files, sleeps, locks, changes a setting, or runs a text as SQL.
const PURE_FUNCTIONS: &str = "\
    abs acos age any_value array_agg array_length array_position array_to_string ascii asin atan atan2 avg bit_and \
    bit_length bit_or bool_and bool_or btrim cardinality cast cbrt ceil ceiling char char_length character_length \
    charindex choose chr coalesce concat concat_ws convert corr cos cot count covar_pop covar_samp cume_dist curdate \
    current_date current_time current_timestamp current_user curtime date date_add date_format date_part date_sub \
    date_trunc dateadd datediff datename datepart datetime day dayname dayofmonth dayofweek dayofyear decode degrees \
    dense_rank div encode eomonth every exp extract field find_in_set first_value floor format from_unixtime \
    generate_series getdate glob greatest group_concat grouping hex hour if ifnull iif initcap instr isdate isnull \
    isnumeric json_agg json_array json_array_elements json_array_elements_text json_array_length json_build_array \
    json_build_object json_contains json_each json_each_text json_extract json_extract_path json_extract_path_text \
    json_group_array json_group_object json_length json_object json_object_agg json_query json_tree json_type \
    json_typeof json_unquote json_valid json_value jsonb_agg jsonb_array_elements jsonb_array_elements_text \
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path \
    jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_typeof julianday lag last_day last_value lcase \
    lead least left len length ln localtime localtimestamp locate log log10 log2 lower lpad ltrim make_date max md5 \
    mid min minute mod mode month monthname now nth_value ntile nullif nvl octet_length overlay patindex \
    percent_rank percentile_cont percentile_disc pi position pow power printf quarter quote quote_ident \
    quote_literal radians rand random rank regexp_count regexp_instr regexp_like regexp_matches regexp_replace \
    regexp_split_to_array regexp_split_to_table regexp_substr replace reverse right round row_number row_to_json \
    rpad rtrim second session_user sha1 sha2 sha256 sign sin soundex space split_part sqrt starts_with stddev \
    stddev_pop stddev_samp str str_to_date strftime string_agg string_split string_to_array strpos stuff substr \
    substring substring_index sum tan time timestamp timestampadd timestampdiff to_char to_date to_json to_jsonb \
    to_number to_timestamp total translate trim trunc truncate try_cast try_convert typeof ucase unicode unixepoch \
    unnest upper user utc_timestamp uuid var_pop var_samp variance version week weekday weekofyear width_bucket year";

/// Pragmas of SQLite that only describe the schema.
const DESCRIBING_PRAGMAS: &str = "\
    collation_list compile_options database_list foreign_key_list function_list index_info index_list index_xinfo \
    table_info table_list table_xinfo";

/// Words that begin a statement or write, in any dialect. Where one stands unquoted, some reader may see a statement.
const STATEMENT_WORDS: &str = "\
    ALTER CALL COMMIT CREATE DELETE DROP EXEC EXECUTE GRANT INSERT INTO MERGE REVOKE ROLLBACK SET TRUNCATE UPDATE";

/// More such words of SQL Server, which needs no separator before a statement.
const SQL_SERVER_WORDS: &str = "\
    BACKUP BULK CHECKPOINT DBCC DEALLOCATE DECLARE DENY DISABLE DUMP ENABLE GO GOTO KILL LOAD PRINT RAISERROR READTEXT \
    RECONFIGURE RESTORE REVERT SAVE SETUSER SHUTDOWN THROW UPDATETEXT USE WAITFOR WHILE WRITETEXT";

/// Words between expressions that the parser chains like operators.
const OPERATOR_WORDS: &str = "\
    AND AT BETWEEN COLLATE DIV ESCAPE EXCEPT GLOB ILIKE IN INTERSECT IS ISNULL LIKE MATCH MOD NOT NOTNULL OPERATOR \
    OR OVERLAPS REGEXP UNION XOR";

/// A compiled `sql` declaration.
#[derive(Debug)]
pub struct SqlKind {
    dialect: SqlDialect,
    /// Functions that may be called by a read: the pure ones and those the policy adds, folded.
    functions: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SqlDialect {
    Postgres,
    Mysql,
    Sqlite,
    Mssql,
    Generic,
}

/// What a statement does. The later, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Read,
    Write,
    Ddl,
    Other,
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Ddl => "ddl",
            Self::Other => "other",
        }
    }
}

impl SqlDialect {
    const NAMES: [(&'static str, Self); 5] = [
        ("postgres", Self::Postgres),
        ("mysql", Self::Mysql),
        ("sqlite", Self::Sqlite),
        ("mssql", Self::Mssql),
        ("generic", Self::Generic),
    ];

    fn parser_dialect(self) -> Box<dyn Dialect> {
        match self {
            Self::Postgres => Box::new(PostgreSqlDialect {}),
            Self::Mysql => Box::new(MySqlDialect {}),
            Self::Sqlite => Box::new(SQLiteDialect {}),
            Self::Mssql => Box::new(MsSqlDialect {}),
            Self::Generic => Box::new(GenericDialect {}),
        }
    }

    /// Whether a quoted name differs from the same name without quotes when it has capitals.
    fn quoted_names_keep_case(self) -> bool {
        match self {
            Self::Postgres | Self::Generic => true,
            Self::Mysql | Self::Sqlite | Self::Mssql => false,
        }
    }
}

impl SqlKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("kind", FieldType::Text),
        ("statements", FieldType::TextList),
        ("tables", FieldType::TextList),
        ("functions", FieldType::TextList),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let dialect = match options.text("dialect") {
            None => SqlDialect::Generic,
            Some(written) => match SqlDialect::NAMES.iter().find(|(name, _)| *name == written) {
                Some((_, dialect)) => *dialect,
                None => {
                    let hint = "the dialects are postgres, mysql, sqlite, mssql and generic";
                    options.fault("dialect", "there is no such dialect", hint);
                    SqlDialect::Generic
                }
            },
        };
        let mut functions: BTreeSet<String> = words(PURE_FUNCTIONS).map(str::to_owned).collect();
        for (item, written) in options.texts("functions").unwrap_or_default().iter().enumerate() {
            let name = |part: &str| {
                part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
            };
            if written.split('.').all(name) {
                functions.insert(written.to_ascii_lowercase());
            } else {
                let hint = "write the name as a query does, such as \"slugify\" or \"app.slugify\"";
                options.item_fault("functions", item, "it is no name of a function, so nothing matches", hint);
            }
        }
        options.finish(Some(Self { dialect, functions }))
    }

    pub(super) fn resolve(&self, value: &Value) -> Result<Resolution, Refusal> {
        let text = value.as_str().ok_or_else(|| Refusal::unresolvable("not_text", "SQL is a string"))?;
        if text.is_empty() {
            return Err(Refusal::unresolvable("empty", "SQL is not empty"));
        }
        if text.contains('\0') {
            return Err(Refusal::unresolvable("control_character", "it holds a NUL"));
        }
        let found = self.read(text);
        let value = json!({
            "kind": found.effect.name(),
            "statements": found.statements.iter().map(|effect| effect.name()).collect::<Vec<_>>(),
            "tables": found.tables,
            "functions": found.functions,
        });
        Ok(Resolution { value, obligations: Map::new() })
    }

    fn read(&self, text: &str) -> Reading {
        let Some(Parsed { statements, readers_agree, plain_words }) = self.parse(text) else {
            return Reading::unknown();
        };
        let mut reading = Reading { effect: Effect::Read, ..Reading::default() };
        for statement in &statements {
            let mut proof = Proof::new(self);
            let effect = proof.effect_of(statement);
            reading.statements.push(effect);
            reading.effect = reading.effect.max(effect);
            reading.tables.append(&mut proof.tables);
            reading.functions.append(&mut proof.functions);
        }
        if !readers_agree || statements.is_empty() {
            reading.effect = Effect::Other;
            reading.tables.insert(UNKNOWN.to_owned());
            reading.functions.insert(UNKNOWN.to_owned());
        } else if reading.effect == Effect::Read && (statements.len() > 1 || !plain_words) {
            // A driver may run only the first of several, or a server see one more where a word begins it.
            reading.effect = Effect::Other;
        }
        reading
    }

    /// `None` when it does not parse or is too big.
    fn parse(&self, text: &str) -> Option<Parsed> {
        if text.len() > LONGEST_SQL {
            return None;
        }
        let dialect = self.dialect.parser_dialect();
        let mut tokens = Tokenizer::new(dialect.as_ref(), text).tokenize().ok()?;
        if too_complex(&tokens) {
            return None;
        }
        let readers_agree = text_is_unambiguous(text) && tokens.iter().all(|token| self.is_unambiguous(token));
        let plain_words = !holds_statement_word(&tokens, self.dialect);
        quote_pragma_argument(&mut tokens);
        let mut parser = Parser::new(dialect.as_ref()).with_tokens(tokens);
        let statements = parser.parse_statements().ok()?;
        // At the word END the parser stops and leaves the rest unread, where MySQL and SQLite see a plain name.
        if parser.peek_token_ref().token != Token::EOF {
            return None;
        }
        Some(Parsed { statements, readers_agree, plain_words })
    }

    /// Whether the databases that may read this token see the same one.
    fn is_unambiguous(&self, token: &Token) -> bool {
        let dialect = self.dialect;
        let generic = dialect == SqlDialect::Generic;
        #[expect(clippy::wildcard_enum_match_arm, reason = "every other token is written alike in all dialects")]
        match token {
            Token::Whitespace(Whitespace::SingleLineComment { comment, prefix }) => {
                let spaced = comment.is_empty() || comment.starts_with(char::is_whitespace);
                match prefix.as_str() {
                    // MySQL takes `--` for a comment only before white space.
                    "--" => spaced || !(generic || dialect == SqlDialect::Mysql),
                    "#" => dialect == SqlDialect::Mysql,
                    _ => false,
                }
            }
            // MySQL runs `/*! */`, MariaDB `/*M! */`, both heed `/*+ */`; some nest comments and some do not.
            Token::Whitespace(Whitespace::MultiLineComment(comment)) => {
                !comment.starts_with(['!', '+']) && !comment.starts_with("M!") && !comment.contains("/*")
            }
            Token::Word(word) => match word.quote_style {
                None => !(generic && word.value.contains('$')),
                Some('`') if generic => is_plain_name(&word.value),
                Some('[') => dialect == SqlDialect::Mssql || dialect == SqlDialect::Sqlite,
                Some(_) => true,
            },
            Token::DollarQuotedString(_) => dialect == SqlDialect::Postgres,
            Token::Placeholder(text) => !generic || !text.starts_with('$'),
            Token::LBracket | Token::Sharp | Token::Char(_) => !generic,
            _ => true,
        }
    }
}

/// What the parser made of a text.
struct Parsed {
    statements: Vec<Statement>,
    /// Every lexer sees the same tokens.
    readers_agree: bool,
    /// No unquoted word could begin a statement of its own.
    plain_words: bool,
}

/// What a text was found to do.
#[derive(Default)]
struct Reading {
    effect: Effect,
    statements: Vec<Effect>,
    tables: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Default for Effect {
    /// The strictest: nothing is a read until it is proved to be one.
    fn default() -> Self {
        Self::Other
    }
}

impl Reading {
    fn unknown() -> Self {
        let unknown = || BTreeSet::from([UNKNOWN.to_owned()]);
        Self { effect: Effect::Other, statements: vec![Effect::Other], tables: unknown(), functions: unknown() }
    }
}

/// Whether the text is free of what lexers read differently inside any token.
fn text_is_unambiguous(text: &str) -> bool {
    // With or without backslash escapes a quote after a backslash ends the string or does not.
    let quote_after_backslash = text.as_bytes().windows(2).any(|pair| matches!(pair, [b'\\', b'\'' | b'"' | b'`']));
    // A carriage return ends a line comment for some and not for others.
    let lone_return = text.replace("\r\n", "\n").contains('\r');
    let odd = |character: char| {
        (character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
            || (!character.is_ascii() && character.is_whitespace())
            || deceives(character)
    };
    // An opening mark inside a comment: some close it at the first end, some at the last.
    let nested_comment =
        text.split("/*").skip(1).any(|inside| !inside.contains("*/")) && text.matches("/*").count() > 1;
    !quote_after_backslash && !lone_return && !nested_comment && !text.contains(odd)
}

/// Whether the tree would be too deep to walk and to drop, or brackets too deep to parse in linear time.
fn too_complex(tokens: &[Token]) -> bool {
    let (mut operators, mut depth) = (0_usize, 0_usize);
    for token in tokens {
        #[expect(clippy::wildcard_enum_match_arm, reason = "every other token is counted as an operator")]
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                depth += 1;
                operators += 1;
            }
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Word(word) => {
                operators += usize::from(word.quote_style.is_none() && is_one_of(&word.value, OPERATOR_WORDS));
            }
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Comma | Token::EOF => {}
            Token::Period => {}
            _ => operators += 1,
        }
        if operators > MOST_OPERATORS || depth > DEEPEST_BRACKETS {
            return true;
        }
    }
    false
}

/// The words of one of the lists above.
fn words(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(' ')
}

fn is_one_of(word: &str, list: &'static str) -> bool {
    words(list).any(|listed| listed.eq_ignore_ascii_case(word))
}

/// Whether a type is one the database comes with. It may stand in an array.
fn is_built_in(data_type: &DataType) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "sqlparser has a variant for each built-in type")]
    match data_type {
        DataType::Custom(..) => false,
        DataType::Array(ArrayElemTypeDef::AngleBracket(inner) | ArrayElemTypeDef::Parenthesis(inner))
        | DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => is_built_in(inner),
        DataType::Struct(..)
        | DataType::Tuple(_)
        | DataType::Nested(_)
        | DataType::Map(..)
        | DataType::Nullable(_)
        | DataType::LowCardinality(_)
        | DataType::Table(_)
        | DataType::NamedTable { .. } => false,
        _ => true,
    }
}

/// Whether an unquoted word could begin a statement of its own. What EXPLAIN explains is not begun.
fn holds_statement_word(tokens: &[Token], dialect: SqlDialect) -> bool {
    let may_be_mssql = matches!(dialect, SqlDialect::Mssql | SqlDialect::Generic);
    let mut explaining = false;
    let mut place = 0;
    for token in tokens {
        let Token::Word(word) = token else { continue };
        if word.quote_style.is_some() {
            continue;
        }
        let word = word.value.as_str();
        let begins = is_one_of(word, STATEMENT_WORDS) || (may_be_mssql && is_one_of(word, SQL_SERVER_WORDS));
        if begins && !(explaining && place == 1) {
            return true;
        }
        explaining = place == 0 && !may_be_mssql && is_one_of(word, "EXPLAIN");
        place += 1;
    }
    false
}

/// SQLite takes a bare name in `PRAGMA name(table)`, and the parser only a quoted one.
fn quote_pragma_argument(tokens: &mut [Token]) {
    let mut written = tokens.iter_mut().filter(|token| !matches!(token, Token::Whitespace(_)));
    if !written.next().is_some_and(|token| matches!(token, Token::Word(word) if is_one_of(&word.value, "PRAGMA"))) {
        return;
    }
    let argument = written.skip_while(|token| !matches!(token, Token::LParen)).nth(1);
    if let Some(token) = argument
        && let Token::Word(word) = token
    {
        *token = Token::SingleQuotedString(std::mem::take(&mut word.value));
    }
}

/// Letters, digits, `_`: a name that reads the same with quotes and without.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The walk over one statement: what it names, and the first thing that keeps it from being a read.
struct Proof<'k> {
    kind: &'k SqlKind,
    tables: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// The strictest thing met so far.
    effect: Effect,
    /// How many statements were entered: one within another is a writing CTE or its like.
    statements: usize,
    /// Statements that may stand inside without being run, as in EXPLAIN.
    explained: usize,
    scopes: Vec<Scope>,
    /// The next relation is the name of a table function and no table.
    function_follows: bool,
}

/// The common table expressions of one query, which hide tables of the same name.
struct Scope {
    /// Their names in order. A quoted one is `None`: whether it hides an unquoted table depends on the database.
    names: Vec<Option<String>>,
    recursive: bool,
    /// Queries directly below this one that were entered: first the expressions, in order, then those of the body.
    entered: usize,
}

impl Scope {
    /// Whether a table of this name, met in the query itself (`innermost`) or in one below it, is an expression.
    fn hides(&self, name: &str, innermost: bool) -> bool {
        let within_expression = !innermost && self.entered <= self.names.len();
        // In its own text an expression that is not recursive sees only those before it.
        let visible =
            if within_expression && !self.recursive { self.entered.saturating_sub(1) } else { self.names.len() };
        self.names.iter().take(visible).flatten().any(|hidden| hidden == name)
    }
}

impl<'k> Proof<'k> {
    fn new(kind: &'k SqlKind) -> Self {
        Self {
            kind,
            tables: BTreeSet::new(),
            functions: BTreeSet::new(),
            effect: Effect::Read,
            statements: 0,
            explained: 0,
            scopes: Vec::new(),
            function_follows: false,
        }
    }

    fn effect_of(&mut self, statement: &Statement) -> Effect {
        let by_itself = self.effect_by_itself(statement);
        let _: ControlFlow<()> = statement.visit(self);
        by_itself.max(self.effect)
    }

    /// What the statement is by its kind alone, before anything inside it is looked at.
    fn effect_by_itself(&mut self, statement: &Statement) -> Effect {
        let dialect = self.kind.dialect;
        let describes = matches!(dialect, SqlDialect::Postgres | SqlDialect::Mysql | SqlDialect::Generic);
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever else sqlparser knows is no read")]
        match statement {
            Statement::Query(_) => Effect::Read,
            Statement::Explain { analyze: false, options: None, statement, .. } if dialect != SqlDialect::Mssql => {
                // SQL Server takes EXPLAIN for a procedure, fails to find it, and runs what follows.
                let may_be_run = dialect == SqlDialect::Generic;
                match statement.as_ref() {
                    Statement::Query(_) => {
                        self.explained = 1;
                        Effect::Read
                    }
                    Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) if !may_be_run => {
                        self.explained = 1;
                        Effect::Read
                    }
                    _ => Effect::Other,
                }
            }
            Statement::ExplainTable { .. }
            | Statement::ShowVariable { .. }
            | Statement::ShowVariables { .. }
            | Statement::ShowStatus { .. }
            | Statement::ShowCreate { .. }
            | Statement::ShowColumns { .. }
            | Statement::ShowDatabases { .. }
            | Statement::ShowSchemas { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowViews { .. }
            | Statement::ShowCollation { .. }
                if describes =>
            {
                self.tables.insert(UNKNOWN.to_owned());
                Effect::Read
            }
            Statement::Pragma { name, is_eq: false, .. }
                if matches!(dialect, SqlDialect::Sqlite | SqlDialect::Generic)
                    && is_one_of(&self.name(name), DESCRIBING_PRAGMAS) =>
            {
                self.tables.insert(UNKNOWN.to_owned());
                Effect::Read
            }
            Statement::Copy { source, to, target, options, legacy_options, .. } => {
                if let CopySource::Table { table_name, .. } = source {
                    self.tables.insert(self.name(table_name));
                }
                // Reading a table out to the client is a read; to a file or a program it is not.
                let to_client = *to && *target == CopyTarget::Stdout && options.is_empty() && legacy_options.is_empty();
                match (to_client, describes) {
                    (true, true) => Effect::Read,
                    // A database that has no such statement.
                    (true, false) => Effect::Other,
                    (false, _) => Effect::Write,
                }
            }
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => Effect::Write,
            Statement::Truncate(_)
            | Statement::CreateView(_)
            | Statement::CreateTable(_)
            | Statement::CreateVirtualTable { .. }
            | Statement::CreateIndex(_)
            | Statement::CreateSchema { .. }
            | Statement::CreateDatabase { .. }
            | Statement::CreateFunction(_)
            | Statement::CreateTrigger(_)
            | Statement::CreateProcedure { .. }
            | Statement::CreateSequence { .. }
            | Statement::CreateType { .. }
            | Statement::CreateExtension(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::AlterView { .. }
            | Statement::AlterSchema(_)
            | Statement::AlterType(_)
            | Statement::Drop { .. }
            | Statement::DropFunction(_)
            | Statement::DropProcedure { .. }
            | Statement::DropTrigger(_)
            | Statement::DropExtension(_)
            | Statement::RenameTable(_)
            | Statement::Comment { .. } => Effect::Ddl,
            _ => Effect::Other,
        }
    }

    fn at_least(&mut self, effect: Effect) -> ControlFlow<()> {
        self.effect = self.effect.max(effect);
        ControlFlow::Continue(())
    }

    /// A name as rules see it: without quotes where they make no difference, parts joined by dots.
    fn name(&self, name: &ObjectName) -> String {
        let part = |part: &ObjectNamePart| match part {
            ObjectNamePart::Identifier(ident) => self.identifier(ident),
            ObjectNamePart::Function(_) => UNKNOWN.to_owned(),
        };
        name.0.iter().map(part).collect::<Vec<_>>().join(".")
    }

    fn identifier(&self, ident: &Ident) -> String {
        let lower = ident.value.to_lowercase();
        let keeps_case = ident.quote_style.is_some() && self.kind.dialect.quoted_names_keep_case();
        if !is_plain_name(&ident.value) && !ident.value.starts_with(['#', '@']) || (keeps_case && lower != ident.value)
        {
            let shown = if keeps_case { &ident.value } else { &lower };
            return format!("\"{}\"", shown.replace('"', "\"\""));
        }
        lower
    }

    /// `TABLE t` is a query too, and its name is no relation to the visitor.
    fn tables_by_name_alone(&mut self, body: &SetExpr) {
        let mut waiting = vec![body];
        while let Some(body) = waiting.pop() {
            match body {
                SetExpr::SetOperation { left, right, .. } => waiting.extend([left.as_ref(), right.as_ref()]),
                // Its quotes are lost, and which table it means with them.
                SetExpr::Table(_) => {
                    self.tables.insert(UNKNOWN.to_owned());
                }
                SetExpr::Select(_)
                | SetExpr::Query(_)
                | SetExpr::Values(_)
                | SetExpr::Insert(_)
                | SetExpr::Update(_)
                | SetExpr::Delete(_)
                | SetExpr::Merge(_) => {}
            }
        }
    }

    fn call(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let name = self.name(name);
        let pure = self.kind.functions.contains(&name);
        self.functions.insert(name);
        if pure { ControlFlow::Continue(()) } else { self.at_least(Effect::Other) }
    }
}

impl Visitor for Proof<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        self.statements += 1;
        if self.statements <= 1 + self.explained {
            return ControlFlow::Continue(());
        }
        let within = if matches!(statement, Statement::Query(_)) { Effect::Other } else { Effect::Write };
        self.at_least(within)
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(around) = self.scopes.last_mut() {
            around.entered += 1;
        }
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        self.scopes.push(Scope {
            names: names
                .map(|cte| cte.alias.name.quote_style.is_none().then(|| self.identifier(&cte.alias.name)))
                .collect(),
            recursive: query.with.as_ref().is_some_and(|with| with.recursive),
            entered: 0,
        });
        self.tables_by_name_alone(&query.body);
        let plain = query.locks.is_empty()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        if plain { ControlFlow::Continue(()) } else { self.at_least(Effect::Other) }
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.into.is_some() {
            return self.at_least(Effect::Write);
        }
        if select.optimizer_hints.is_empty() { ControlFlow::Continue(()) } else { self.at_least(Effect::Other) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever else sqlparser knows is not proved to be pure")]
        match factor {
            TableFactor::Table { name, args, with_hints, json_path, .. } => {
                if !with_hints.is_empty() || json_path.is_some() {
                    return self.at_least(Effect::Other);
                }
                if args.is_some() {
                    self.function_follows = true;
                    return self.call(name);
                }
                ControlFlow::Continue(())
            }
            TableFactor::Function { name, .. } => self.call(name),
            TableFactor::Derived { .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::NestedJoin { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. } => ControlFlow::Continue(()),
            _ => self.at_least(Effect::Other),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if std::mem::take(&mut self.function_follows) {
            return ControlFlow::Continue(());
        }
        let name = self.name(relation);
        let innermost = self.scopes.len().saturating_sub(1);
        let hidden = relation.0.len() == 1
            && self.scopes.iter().enumerate().any(|(depth, scope)| scope.hides(&name, depth == innermost));
        if !hidden {
            self.tables.insert(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever else sqlparser knows is not proved to be pure")]
        match expr {
            Expr::Function(Function { name, .. }) => self.call(name),
            // Custom types and operators run functions that anyone may have written.
            Expr::Cast { data_type, .. } | Expr::Convert { data_type: Some(data_type), .. }
                if !is_built_in(data_type) =>
            {
                self.at_least(Effect::Other)
            }
            Expr::TypedString(TypedString { data_type, .. }) if !is_built_in(data_type) => self.at_least(Effect::Other),
            Expr::BinaryOp {
                op: BinaryOperator::Assignment | BinaryOperator::Custom(_) | BinaryOperator::PGCustomBinaryOperator(_),
                ..
            } => self.at_least(Effect::Other),
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::CompoundFieldAccess { .. }
            | Expr::JsonAccess { .. }
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::IsJson { .. }
            | Expr::IsNormalized { .. }
            | Expr::In { .. }
            | Expr::Between { .. }
            | Expr::BinaryOp { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::SimilarTo { .. }
            | Expr::RLike { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
            | Expr::UnaryOp { .. }
            | Expr::Convert { .. }
            | Expr::Cast { .. }
            | Expr::AtTimeZone { .. }
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. }
            | Expr::Collate { .. }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::Prefixed { .. }
            | Expr::TypedString(_)
            | Expr::Case { .. }
            | Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::GroupingSets(_)
            | Expr::Cube(_)
            | Expr::Rollup(_)
            | Expr::Tuple(_)
            | Expr::Array(_)
            | Expr::Interval(_)
            | Expr::MatchAgainst { .. }
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..)
            | Expr::MemberOf(_) => ControlFlow::Continue(()),
            _ => self.at_least(Effect::Other),
        }
    }
}
