//! The trusted request: which values a human's own words name, for `requested(x)` in conditions (design section 3.3).
//!
//! A text is taken apart once, in linear time; a value is then looked up without going through the text again. Where
//! it is in doubt whether a word is the human's own, or which number is meant, nothing is requested: the call is then
//! held for a human, and that is all. What counts:
//!
//! - an **address** (`@`) as an address, compared as the kind `email` compares: in lower case, the domain as A-labels;
//! - a **host** as a host standing alone, with or without a path, or as the host of a URL; never as the domain of an
//!   address, nor of a URL with a user name;
//! - a **URL** as a whole URL, in WHATWG's serialisation;
//! - a **number** as a number standing alone, a currency sign aside. `1000`, `1000.5`, `1,000.50` and `1.000,50` are
//!   read; `1.000`, `1,5`, `1 000` and `0815` have no sure meaning and are no numbers. Neither is what touches a letter, `%`,
//!   `#`, `+` or another number, what marks an item of a list, or what belongs to a date or a time;
//! - **other text** verbatim, at least three characters long, with nothing joined to it on either side. A text such as
//!   `12.50` may stand as that number too: that is how the kind `money` names an amount.
//!
//! Quotations are left out: lines that begin with `>` and what follows them up to a blank line (CommonMark's lazy
//! continuation), everything below the line that introduces a quoted or forwarded mail, everything from the first
//! fence (three backticks or tildes) to the last one, and what stands in the elements `attachment`, `document` and
//! `blockquote`. A quotation that is not closed goes on to the end.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use super::{
    audit::payload::PayloadDigest,
    canon::{email::plain_address, hostname::plain_host},
    policy::condition::RequestedValue,
};

/// How much all texts of a run may be together, in bytes.
pub const MOST_BYTES: usize = 65_536;

/// The fewest characters that a text needs to stand for something.
const FEWEST_CHARACTERS: usize = 3;
/// The fewest backticks or tildes that are a fence.
const SHORTEST_FENCE: usize = 3;
/// The longest number, in characters.
const MOST_DIGITS: usize = 40;
/// How many places with the same first word are tried, so that a look-up stays short in any text.
const MOST_PLACES: usize = 256;
/// How many lines the introduction of a quoted mail may be wrapped to.
const INTRODUCTION_LINES: usize = 3;
/// How many lines below `From:` the date of a quoted mail may stand.
const HEADER_LINES: usize = 3;

/// How the line above a quoted mail ends, before its colon.
const INTRODUCTIONS_END: [&str; 6] = ["wrote", "a écrit", "escribió", "ha scritto", "escreveu", "forwarded message"];

/// What stands somewhere in such a line, where the name of the sender comes last.
const INTRODUCTIONS_HOLD: [&str; 4] = ["schrieb", "schreef", "skrev", "написал"];

/// What ends a line.
const LINE_ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Elements whose content somebody else wrote.
const QUOTING_ELEMENTS: [&str; 3] = ["attachment", "document", "blockquote"];

/// Signs of money that may stand beside a number.
const CURRENCY_SIGNS: [char; 6] = ['$', '€', '£', '¥', '₹', '₩'];

/// Months in English, as they stand beside the number of a day or a year.
const MONTHS: [&str; 24] = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// What makes the number before it an hour.
const HOURS: [&str; 6] = ["am", "pm", "a.m", "p.m", "o'clock", "uhr"];

/// One text of the human, taken apart.
#[derive(Debug, Default)]
pub struct TrustedText {
    addresses: HashSet<String>,
    hosts: HashSet<String>,
    urls: HashSet<String>,
    /// Plain decimals without needless zeros.
    numbers: HashSet<String>,
    /// What is no quotation, each part on its own.
    parts: Vec<String>,
    /// Where words begin, as a part and an offset in it, by the word.
    words: HashMap<String, Vec<(usize, usize)>>,
}

/// Everything the humans asked of a run, as a fact of a decision. Recorded, it names the texts by their digests; the
/// texts themselves are payloads, and whoever decides again has to gather them again.
#[derive(Clone, Debug, Default)]
pub struct TrustedRequest {
    texts: Vec<(PayloadDigest, Option<Arc<TrustedText>>)>,
}

impl TrustedRequest {
    /// The request that consists of these texts; those that were erased are `None`.
    pub fn new(texts: Vec<(PayloadDigest, Option<Arc<TrustedText>>)>) -> Self {
        Self { texts }
    }

    /// Whether nothing was asked.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether every text is there. What an erased one named nobody knows.
    pub fn is_at_hand(&self) -> bool {
        self.texts.iter().all(|(_, text)| text.is_some())
    }

    /// Whether `value` stands in one of the texts.
    pub fn names(&self, value: RequestedValue<'_>) -> bool {
        let wanted = Wanted::of(value);
        self.texts.iter().any(|(_, text)| text.as_ref().is_some_and(|text| text.has(&wanted)))
    }
}

impl PartialEq for TrustedRequest {
    fn eq(&self, other: &Self) -> bool {
        self.texts.iter().map(|(digest, _)| digest).eq(other.texts.iter().map(|(digest, _)| digest))
    }
}

impl Eq for TrustedRequest {}

impl Serialize for TrustedRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.texts.iter().map(|(digest, _)| digest))
    }
}

impl<'de> Deserialize<'de> for TrustedRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digests = Vec::<PayloadDigest>::deserialize(deserializer)?;
        Ok(Self { texts: digests.into_iter().map(|digest| (digest, None)).collect() })
    }
}

/// What is looked for.
enum Wanted<'v> {
    Address(String),
    Host(String),
    Url(String),
    Number(String),
    /// A text as it is; or the host of a URL that it could be, or the number it is in the form of money.
    Verbatim {
        text: &'v str,
        host: Option<String>,
        number: Option<String>,
    },
}

impl<'v> Wanted<'v> {
    fn of(value: RequestedValue<'v>) -> Self {
        match value {
            RequestedValue::Int(int) => Self::Number(int.to_string()),
            // The shortest decimal that is this double, never with an exponent.
            RequestedValue::Double(double) => Self::Number(double.to_string()),
            RequestedValue::Text(text) => Self::of_text(text),
        }
    }

    fn of_text(text: &'v str) -> Self {
        // What a URL's parser would repair has no single meaning.
        let repaired = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        if text.contains("://")
            && !text.contains(repaired)
            && let Ok(url) = Url::parse(text)
        {
            return Self::Url(url.into());
        }
        if let Some(address) = plain_address(text) {
            return Self::Address(address);
        }
        match plain_host(text) {
            Some(host) if host.is_unmistakable => Self::Host(host.text),
            host => {
                let number = if text.contains('.') { decimal(text) } else { None };
                Self::Verbatim { text, host: host.map(|host| host.text), number }
            }
        }
    }
}

impl TrustedText {
    /// Takes a text apart. Of more than [`MOST_BYTES`] nothing is requested.
    pub fn read(text: &str) -> Self {
        let mut read = Self::default();
        if text.len() > MOST_BYTES {
            return read;
        }
        for part in own_words(text) {
            read.take_apart(part);
        }
        read
    }

    /// Whether `value` stands in it.
    pub fn names(&self, value: RequestedValue<'_>) -> bool {
        self.has(&Wanted::of(value))
    }

    fn has(&self, wanted: &Wanted<'_>) -> bool {
        match wanted {
            Wanted::Address(address) => self.addresses.contains(address),
            Wanted::Host(host) => self.hosts.contains(host),
            Wanted::Url(url) => self.urls.contains(url),
            Wanted::Number(number) => self.numbers.contains(number),
            Wanted::Verbatim { text, host, number } => {
                self.has_verbatim(text)
                    || host.as_ref().is_some_and(|host| self.hosts.contains(host))
                    || number.as_ref().is_some_and(|number| self.numbers.contains(number))
            }
        }
    }

    fn has_verbatim(&self, text: &str) -> bool {
        let long_enough = text.chars().count() >= FEWEST_CHARACTERS && text.contains(char::is_alphanumeric);
        let places = self.words.get(first_word(text)).map(Vec::as_slice).unwrap_or_default();
        long_enough
            && places.iter().take(MOST_PLACES).any(|(part, start)| {
                let rest = self.parts.get(*part).and_then(|part| part.get(*start..)).unwrap_or_default();
                rest.strip_prefix(text).is_some_and(|after| !is_joined(after.chars()))
            })
    }

    fn take_apart(&mut self, part: String) {
        self.index_words(&part);
        for line in part.split(LINE_ENDS) {
            self.read_numbers(line);
            for chunk in line.split_whitespace() {
                self.read_names(chunk);
            }
        }
        self.parts.push(part);
    }

    /// Every place where a text could begin that nothing is joined to.
    fn index_words(&mut self, part: &str) {
        let index = self.parts.len();
        let mut before: Option<char> = None;
        // Whether the dots just before this place follow something that joins.
        let mut joined = false;
        for (start, character) in part.char_indices() {
            let within_word = before.is_some_and(joins);
            if !character.is_whitespace() && !within_word && !joined {
                let rest = part.get(start..).unwrap_or_default();
                let places = self.words.entry(first_word(rest).to_owned()).or_default();
                if places.len() < MOST_PLACES {
                    places.push((index, start));
                }
            }
            joined = match character {
                _ if joins(character) || character.is_whitespace() => false,
                '.' => within_word || joined,
                _ => within_word,
            };
            before = Some(character);
        }
    }

    /// Addresses, hosts and URLs in what stands between spaces.
    fn read_names(&mut self, chunk: &str) {
        for piece in chunk.split(['<', '>', '"', '|', '`', '“', '”', '«', '»']) {
            if piece.contains("://") {
                self.read_url(piece);
                continue;
            }
            for name in piece.split([',', ';', '(', ')', '[', ']', '{', '}']) {
                if name.contains('@') {
                    // `mailto:` and `cc:` may stand before an address.
                    let address = name.rsplit(':').find(|part| part.contains('@')).unwrap_or_default();
                    self.addresses.extend(plain_address(without_decoration(address)));
                    continue;
                }
                let name = without_decoration(name);
                let host = name.split(['/', '?', '#', ':']).next().unwrap_or_default();
                self.hosts.extend(plain_host(host).filter(|host| host.is_unmistakable).map(|host| host.text));
            }
        }
    }

    /// The one URL of a piece; another URL within it is a part of this one.
    fn read_url(&mut self, piece: &str) {
        let Some((before, _)) = piece.split_once("://") else { return };
        let in_front = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'));
        let Some(link) = piece.get(in_front.len()..) else { return };
        if !in_front.is_empty() && !in_front.ends_with(['(', '[', '{', ',', ';', ':', '\'', '‘', '*', '_']) {
            return;
        }
        let Ok(url) = Url::parse(without_closing(link)) else { return };
        if url.username().is_empty() && url.password().is_none() {
            self.hosts.extend(url.host_str().and_then(plain_host).map(|host| host.text));
            self.urls.insert(url.into());
        }
    }

    /// Numbers that stand alone in a line.
    fn read_numbers(&mut self, line: &str) {
        let chunks: Vec<&str> = line.split_whitespace().collect();
        let numeric = |chunk: Option<&&str>| chunk.is_some_and(|chunk| bare_number(chunk).is_some());
        let mut dated = false;
        for (index, chunk) in chunks.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| chunks.get(before));
            let after = chunks.get(index + 1);
            let is_month = |chunk: Option<&&str>| chunk.is_some_and(|chunk| is_one_of(chunk, &MONTHS));
            let Some(number) = bare_number(chunk) else {
                dated = dated && is_month(Some(chunk));
                continue;
            };
            // In `5 May 2026` and `May 5, 2026` the year belongs to the date as well.
            dated = dated || is_month(before) || is_month(after);
            let is_hour = after.is_some_and(|after| is_one_of(after, &HOURS));
            let touches_number = numeric(before) && before.is_some_and(|before| !before.ends_with([',', ';']))
                || numeric(after) && !chunk.ends_with([',', ';']);
            let marks_item = index == 0 && chunks.len() > 1 && chunk.ends_with(['.', ')']);
            let after_sign = before.is_some_and(|before| before.ends_with('#'));
            if !(dated || is_hour || touches_number || marks_item || after_sign) {
                self.numbers.extend(number);
            }
        }
    }
}

/// What a chunk with nothing but digits and their punctuation is as a number; `Some(None)` when that is not sure, and
/// `None` when the chunk is something else.
fn bare_number(chunk: &str) -> Option<Option<String>> {
    let opened = chunk.trim_start_matches(['(', '[', '{', '"', '\'', '“', '‘', '«', '*', '_']);
    let closing = [')', ']', '}', '"', '\'', '”', '’', '»', '*', '_', ',', ';', ':', '!', '?', '.'];
    let closed = opened.trim_end_matches(closing);
    let (sign, amount) = match closed.strip_prefix(['-', '\u{2212}']) {
        Some(amount) => ("-", amount),
        None => ("", closed),
    };
    let amount = amount.strip_prefix(CURRENCY_SIGNS).or_else(|| amount.strip_suffix(CURRENCY_SIGNS)).unwrap_or(amount);
    if amount.is_empty() || !amount.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',')) {
        return None;
    }
    // `5.10.` is a day of October to half of Europe.
    if opened.ends_with('.') && is_day_and_month(amount) {
        return Some(None);
    }
    Some(decimal(&format!("{sign}{amount}")))
}

fn is_day_and_month(amount: &str) -> bool {
    let Some((day, month)) = amount.split_once('.') else { return false };
    let within = |text: &str, most: u32| text.len() <= 2 && text.parse::<u32>().is_ok_and(|number| number <= most);
    within(day, 31) && within(month, 12)
}

/// A number in its one form, without grouping and needless zeros; `None` for what could be read in two ways.
fn decimal(text: &str) -> Option<String> {
    let (sign, amount) = match text.strip_prefix('-') {
        Some(amount) => ("-", amount),
        None => ("", text),
    };
    let (whole, fraction) = match (amount.rfind('.'), amount.rfind(',')) {
        (None, None) => (amount.to_owned(), None),
        (None, Some(_)) => (ungrouped(amount, ',')?, None),
        (Some(_), None) => {
            let (whole, fraction) = amount.split_once('.')?;
            if fraction.len() == 3 {
                // Could be a group of thousands.
                return None;
            }
            (whole.to_owned(), Some(fraction))
        }
        (Some(dot), Some(comma)) => {
            let (separator, last) = if dot > comma { (',', dot) } else { ('.', comma) };
            (ungrouped(amount.get(..last)?, separator)?, amount.get(last + 1..))
        }
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if amount.len() > MOST_DIGITS || leading_zero || !digits(&whole) || !fraction.is_none_or(digits) {
        return None;
    }
    let fraction = fraction.unwrap_or_default().trim_end_matches('0');
    let number = if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") };
    Some(if number == "0" { number } else { format!("{sign}{number}") })
}

/// The digits of `1,000,000`: groups of three behind a first one of one to three. At least one separator must be there.
fn ungrouped(text: &str, separator: char) -> Option<String> {
    let mut groups = text.split(separator);
    let first = groups.next()?;
    let mut several = false;
    let sure = (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && groups.all(|group| {
            several = true;
            group.len() == 3
        });
    (sure && several).then(|| text.replace(separator, ""))
}

/// Whether a chunk is one of these words, whatever its case and the punctuation around it.
fn is_one_of(chunk: &str, words: &[&str]) -> bool {
    let word = chunk.trim_matches(|c: char| !c.is_alphanumeric());
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The part of a text up to the first character that may end a word, and at least one character.
fn first_word(text: &str) -> &str {
    let mut ends = text.char_indices().skip(1).filter(|(_, character)| !joins(*character));
    text.get(..ends.next().map_or(text.len(), |(end, _)| end)).unwrap_or_default()
}

/// Whether a character makes one word of what stands on its sides.
fn joins(character: char) -> bool {
    character.is_alphanumeric() || "_@-/\\+=&%~".contains(character)
}

/// Whether what follows goes on with the word before it, also behind one other sign or several dots.
fn is_joined(mut after: impl Iterator<Item = char>) -> bool {
    match after.next() {
        None => false,
        Some(next) if joins(next) => true,
        Some(next) if next.is_whitespace() => false,
        Some('.') => after.find(|character| *character != '.').is_some_and(joins),
        Some(_) => after.next().is_some_and(joins),
    }
}

/// Without what people write around a name: the end of a sentence, marks of emphasis, a possessive.
fn without_decoration(name: &str) -> &str {
    let name = name.trim_end_matches(['.', ':', '!', '?']);
    let name = name.strip_suffix("'s").or_else(|| name.strip_suffix("’s")).unwrap_or(name);
    // These may belong to an address. They are marks when they stand at both ends alike.
    let marks = ["**", "__", "*", "_", "'", "’"];
    let inside = marks.iter().find_map(|mark| name.strip_prefix(mark)?.strip_suffix(mark));
    let quoted = name.strip_prefix('‘').and_then(|name| name.strip_suffix('’'));
    inside.or(quoted).unwrap_or(name)
}

/// Without the punctuation that ends a sentence, and brackets that were opened before the link.
fn without_closing(link: &str) -> &str {
    let mut link = link;
    let mut open: HashMap<char, isize> = HashMap::new();
    for character in link.chars().filter(|character| "()[]{}".contains(*character)) {
        let (bracket, change) = match character {
            '(' | ')' => (')', if character == '(' { 1 } else { -1 }),
            '[' | ']' => (']', if character == '[' { 1 } else { -1 }),
            _ => ('}', if character == '{' { 1 } else { -1 }),
        };
        *open.entry(bracket).or_default() += change;
    }
    while let Some(last) = link.chars().next_back() {
        let surplus = open.get(&last).is_some_and(|open| *open < 0);
        if !surplus && !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '’') {
            break;
        }
        if surplus {
            open.entry(last).and_modify(|open| *open += 1);
        }
        link = link.strip_suffix(last).unwrap_or_default();
    }
    link
}

/// The parts of a text that are no quotation.
fn own_words(text: &str) -> Vec<String> {
    // In one form, so that no empty line stands between two lines.
    let text = text.replace("\r\n", "\n");
    let lines = Lines::of(&text);
    let (first, last) = fenced(&lines.unmarked).unwrap_or((lines.unmarked.len(), lines.unmarked.len()));
    let mut parts = Vec::new();
    for (start, end) in lines.own {
        for (start, end) in [(start, end.min(first)), (start.max(last), end)] {
            parts.extend(lines.unmarked.get(start..end).filter(|part| !part.trim().is_empty()).map(str::to_owned));
        }
    }
    parts
}

/// From one byte to before another.
type Span = (usize, usize);

/// A text without the lines that are marked as quoted.
struct Lines {
    unmarked: String,
    /// What of it is neither the continuation of a quoted line nor a quoted mail. Where something was left out in
    /// between, one ends and another begins.
    own: Vec<Span>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let mut unmarked = String::with_capacity(text.len());
        let mut own: Vec<Span> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        let mut quoted = false;
        let mut adjoining = false;
        for line in text.split_inclusive(LINE_ENDS) {
            let content = line.trim();
            if content.starts_with(['>', '\u{ff1e}']) || content.starts_with("&gt;") {
                quoted = true;
                adjoining = false;
                continue;
            }
            quoted = quoted && !content.is_empty();
            let start = unmarked.len();
            starts.push(start);
            // Fences are counted in a continuation as well: one ends it where Markdown is read.
            unmarked.push_str(line);
            match own.last_mut() {
                _ if quoted => {}
                Some((_, end)) if adjoining => *end = unmarked.len(),
                Some(_) | None => own.push((start, unmarked.len())),
            }
            adjoining = !quoted;
        }
        if let Some(mail) = quoted_mail(&unmarked, &starts) {
            own.retain(|(start, _)| *start < mail);
            if let Some((_, end)) = own.last_mut() {
                *end = mail.min(*end);
            }
        }
        Self { unmarked, own }
    }
}

/// Where a quoted or forwarded mail begins, at one of the `starts` of lines.
fn quoted_mail(text: &str, starts: &[usize]) -> Option<usize> {
    let line = |index: usize| {
        let start = *starts.get(index)?;
        text.get(start..starts.get(index + 1).copied().unwrap_or(text.len())).map(str::trim)
    };
    for (index, start) in starts.iter().enumerate() {
        let content = line(index)?;
        if introduces_mail(content) {
            // A wrapped introduction names its sender in a line above.
            let first = index.saturating_sub(INTRODUCTION_LINES - 1);
            let begins = |index: &usize| line(*index).is_some_and(|line| line.starts_with("On "));
            let beginning = (first..=index).rev().find(begins).unwrap_or(index);
            return starts.get(beginning).copied();
        }
        let dated = |index: usize| line(index).is_some_and(|line| has_header(line, "sent") || has_header(line, "date"));
        if has_header(content, "from") && (index + 1..=index + HEADER_LINES).any(dated) {
            return Some(*start);
        }
    }
    None
}

/// Whether a line is what mail programs write above a mail they quote, such as `On Monday Eve wrote:` or
/// `-----Original Message-----`.
fn introduces_mail(line: &str) -> bool {
    let ruled = line.starts_with("--") && line.ends_with("--") && line.contains(char::is_alphabetic);
    ruled
        || line.strip_suffix([':', '：']).is_some_and(|introduction| {
            let introduction = introduction.trim_end().to_lowercase();
            INTRODUCTIONS_END.iter().any(|end| introduction.ends_with(end))
                || INTRODUCTIONS_HOLD.iter().any(|word| introduction.contains(word))
        })
}

/// Whether a line is the header `name` of a mail, as programs copy it into the text.
fn has_header(line: &str, name: &str) -> bool {
    let header = line.trim_start_matches('*').split(':').next().unwrap_or_default();
    header.len() < line.len() && header.eq_ignore_ascii_case(name)
}

/// From the first fence to the last, and to the end where they are odd in number: whoever quotes a text with a fence in
/// it must not set free what stands behind that. An element that quotes is such a pair of fences.
fn fenced(text: &str) -> Option<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for fence in ['`', '~'] {
        let mut offset = 0;
        while let Some((before, run)) = text.get(offset..).and_then(|rest| rest.split_at_checked(rest.find(fence)?)) {
            let length = run.len() - run.trim_start_matches(fence).len();
            let start = offset + before.len();
            offset = start + length;
            if length >= SHORTEST_FENCE {
                spans.push((start, offset));
            }
        }
    }
    if spans.len() % 2 == 1 {
        spans.push((text.len(), text.len()));
    }
    let lower = text.to_ascii_lowercase();
    for element in QUOTING_ELEMENTS {
        let (open, close) = (format!("<{element}"), format!("</{element}"));
        let Some(opened) = lower.find(&open) else { continue };
        let balanced = lower.matches(&open).count() == lower.matches(&close).count();
        let closed = lower.rfind(&close).filter(|closed| balanced && *closed > opened);
        spans.push((opened, closed.unwrap_or(text.len())));
    }
    let first = spans.iter().map(|(start, _)| *start).min()?;
    let last = spans.iter().map(|(_, end)| *end).max()?;
    Some((first, last))
}
