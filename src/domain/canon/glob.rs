//! Globs over paths: matching only; it knows nothing of files, folding of case, or policies.
//!
//! Grammar, segment by segment between slashes: `*` any run of characters within a segment, `?` one character, `[a-z]`
//! and `[!a-z]` one of a class, `{a,b}` either, and `**`, alone in its segment, any number of whole segments. A pattern
//! matches the whole text or not at all. A wildcard never matches an empty segment, and a `**` at the end asks for one
//! segment at least: `a/**` is what lies below `a`, not `a`.
//!
//! `globset` was weighed: it lets `a**b` cross a slash, takes `[]` and `a//b`, which match nothing, and lets a wildcard
//! match an empty segment. Matching here goes back to the last star at most, so its cost is bounded by the product of
//! the two lengths, and there is no recursion.

/// The longest pattern, in bytes.
const LONGEST_PATTERN: usize = 1024;
/// The most alternatives that `{a,b}` may multiply to.
const MOST_ALTERNATIVES: usize = 64;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    alternatives: Vec<Vec<Segment>>,
}

#[derive(Clone, Debug)]
enum Segment {
    /// `**`: any number of whole segments, none included.
    Deep,
    One(Vec<Token>),
}

#[derive(Clone, Debug)]
enum Token {
    Literal(char),
    /// `*`
    Star,
    /// `?`
    Any,
    /// `[..]`, with the ranges it names; `negated` for `[!..]`.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Token {
    /// Whether this token takes exactly this character; a star takes any number and is dealt with apart.
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == character,
            Self::Star | Self::Any => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }
}

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A sentence naming what is wrong: an empty pattern or segment, a `.` or `..` segment, a backslash or control
    /// character, `**` beside other characters, an unclosed or empty `[` or `{`, a pattern that is too long.
    pub fn compile(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        if pattern.len() > LONGEST_PATTERN {
            return Err(format!("the pattern is longer than {LONGEST_PATTERN} bytes"));
        }
        if pattern.contains('\\') || pattern.contains(char::is_control) {
            return Err("the pattern holds a backslash or a control character".to_owned());
        }
        let alternatives =
            expand(pattern)?.iter().map(|alternative| compile_segments(alternative)).collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let characters: Vec<char> = text.chars().collect();
        let segments: Vec<&[char]> = characters.split(|character| *character == '/').collect();
        self.alternatives.iter().any(|pattern| segments_match(pattern, &segments))
    }
}

/// Writes every `{a,b}` out; braces do not nest.
fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut done = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        if before.contains('}') {
            return Err("a `}` without its `{`".to_owned());
        }
        let Some((inside, behind)) = after.split_once('}') else {
            return Err("a `{` without its `}`".to_owned());
        };
        if inside.contains('{') {
            return Err("braces within braces are not supported".to_owned());
        }
        let choices: Vec<&str> = inside.split(',').collect();
        if choices.len() < 2 || choices.contains(&"") {
            return Err("`{..}` needs two or more alternatives, none of them empty".to_owned());
        }
        if done.len() * choices.len() > MOST_ALTERNATIVES {
            return Err(format!("the braces multiply to over {MOST_ALTERNATIVES} patterns"));
        }
        done = done
            .iter()
            .flat_map(|start| choices.iter().map(move |choice| format!("{start}{before}{choice}")))
            .collect();
        rest = behind;
    }
    if rest.contains('}') {
        return Err("a `}` without its `{`".to_owned());
    }
    for start in &mut done {
        start.push_str(rest);
    }
    Ok(done)
}

fn compile_segments(pattern: &str) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let mut written = pattern.split('/').enumerate().peekable();
    while let Some((place, segment)) = written.next() {
        let leading = place == 0;
        match segment {
            // An absolute path begins with an empty segment, and the path of a URL may end with one.
            "" if leading != written.peek().is_none() => segments.push(Segment::One(vec![])),
            "" => return Err("a segment between two slashes is empty, so nothing matches".to_owned()),
            "." | ".." => return Err("`.` and `..` never stand in a resolved path, so nothing matches".to_owned()),
            "**" => {
                if written.peek().is_none() {
                    segments.push(Segment::One(vec![Token::Star]));
                }
                segments.push(Segment::Deep);
            }
            _ if segment.contains("**") => {
                return Err("`**` must stand alone between slashes".to_owned());
            }
            _ => segments.push(Segment::One(compile_tokens(segment)?)),
        }
    }
    Ok(segments)
}

fn compile_tokens(segment: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut characters = segment.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::Star,
            '?' => Token::Any,
            '[' => {
                let (class, rest) = compile_class(characters.as_str())?;
                characters = rest.chars();
                class
            }
            ']' => return Err("a `]` without its `[`".to_owned()),
            literal => Token::Literal(literal),
        });
    }
    Ok(tokens)
}

/// Compiles what follows a `[`, and gives back what follows its `]`.
fn compile_class(after: &str) -> Result<(Token, &str), String> {
    let Some((inside, rest)) = after.split_once(']') else {
        return Err("a `[` without its `]` in the same segment".to_owned());
    };
    let (negated, inside) = inside.strip_prefix(['!', '^']).map_or((false, inside), |inside| (true, inside));
    if inside.is_empty() {
        return Err("`[]` names no character, so nothing matches".to_owned());
    }
    let characters: Vec<char> = inside.chars().collect();
    let mut ranges = Vec::new();
    let mut left = characters.as_slice();
    loop {
        left = match left {
            [low, '-', high, more @ ..] => {
                if low > high {
                    return Err("a range in `[..]` runs backwards, so nothing matches".to_owned());
                }
                ranges.push((*low, *high));
                more
            }
            [one, more @ ..] => {
                ranges.push((*one, *one));
                more
            }
            [] => break,
        };
    }
    Ok((Token::Class { negated, ranges }, rest))
}

/// Whole segments against whole segments; on a mismatch the last `**` takes one segment more.
fn segments_match(pattern: &[Segment], segments: &[&[char]]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut deep: Option<(usize, usize)> = None;
    while let Some(segment) = segments.get(position) {
        match pattern.get(at) {
            Some(Segment::Deep) => {
                deep = Some((at, position));
                at += 1;
                continue;
            }
            Some(Segment::One(tokens)) if segment_matches(tokens, segment) => {
                at += 1;
                position += 1;
                continue;
            }
            Some(Segment::One(_)) | None => {}
        }
        let Some((star, taken)) = deep else { return false };
        deep = Some((star, taken + 1));
        at = star + 1;
        position = taken + 1;
    }
    pattern.get(at..).is_some_and(|left| left.iter().all(|segment| matches!(segment, Segment::Deep)))
}

/// One segment, character by character; on a mismatch the last star takes one character more.
fn segment_matches(tokens: &[Token], text: &[char]) -> bool {
    if text.is_empty() {
        return tokens.is_empty();
    }
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(character) = text.get(position) {
        match tokens.get(at) {
            Some(Token::Star) => {
                star = Some((at, position));
                at += 1;
                continue;
            }
            Some(token) if token.takes(*character) => {
                at += 1;
                position += 1;
                continue;
            }
            Some(_) | None => {}
        }
        let Some((last, taken)) = star else { return false };
        star = Some((last, taken + 1));
        at = last + 1;
        position = taken + 1;
    }
    tokens.get(at..).is_some_and(|left| left.iter().all(|token| matches!(token, Token::Star)))
}
