//! The kind `money`: an amount in a currency, exact, as a number of the currency's smallest unit. No floats, no rounding.
//!
//! Grammar: `["-"] digits ["." digits]` without leading zeros, signs of plus, exponents, separators of thousands or
//! symbols, as a JSON string; or a JSON number, of which the shortest decimal text that reads back as the same number
//! is taken (the form of RFC 8785, 3.2.2.3, but for exponents). Currencies and their digits are those of ISO 4217,
//! list one; codes without a smallest unit (gold, the SDR, testing) are none to pay in.
//!
//! `rust_decimal` was weighed: it rounds silently beyond 28 digits, where an amount must be refused instead.

use serde_json::{Map, Number, Value, json};

use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The greatest amount of the smallest unit: what every JSON parser holds exactly (RFC 8259, 6).
const GREATEST_MINOR: i64 = (1 << 53) - 1;
/// The greatest amount of the smallest unit that a JSON number with a fraction can give: with more than fifteen digits
/// a double no longer tells the number that was written from its neighbours (IEEE 754, `DBL_DIG`).
const GREATEST_MINOR_OF_DOUBLE: i64 = 999_999_999_999_999;
/// The longest text of an amount; no amount that is small enough needs more.
const LONGEST_AMOUNT: usize = 64;

/// ISO 4217 codes by the number of digits after the point.
const CURRENCIES: [(u32, &[&str]); 4] = [
    (
        0,
        &[
            "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF",
            "XOF", "XPF",
        ],
    ),
    (
        2,
        &[
            "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BMD", "BND", "BOB",
            "BOV", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHE", "CHF", "CHW", "CNY", "COP", "COU",
            "CRC", "CUP", "CVE", "CZK", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL",
            "GHS", "GIP", "GMD", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES",
            "KGS", "KHR", "KPW", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK",
            "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MXV", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR",
            "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "QAR", "RON", "RSD", "RUB", "SAR", "SBD", "SCR", "SDG",
            "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TOP",
            "TRY", "TTD", "TWD", "TZS", "UAH", "USD", "USN", "UYU", "UZS", "VED", "VES", "WST", "XCD", "XCG", "YER",
            "ZAR", "ZMW", "ZWG",
        ],
    ),
    (3, &["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"]),
    (4, &["CLF", "UYW"]),
];

/// A compiled `money` declaration.
#[derive(Debug)]
pub struct MoneyKind {
    currency: CurrencySource,
    allow_negative: bool,
}

#[derive(Debug)]
enum CurrencySource {
    Fixed(Currency),
    /// The keys of a JSON Pointer (RFC 6901) into the arguments.
    Argument(Vec<String>),
}

#[derive(Clone, Copy, Debug)]
struct Currency {
    code: &'static str,
    digits: u32,
}

impl Currency {
    /// Finds a code, in capitals or small letters alike.
    fn find(written: &str) -> Option<Self> {
        CURRENCIES.iter().find_map(|(digits, codes)| {
            let code = codes.iter().find(|code| code.eq_ignore_ascii_case(written))?;
            Some(Self { code, digits: *digits })
        })
    }
}

impl MoneyKind {
    pub(super) const SHAPE: Shape =
        Shape::Record(&[("amount", FieldType::Text), ("minor", FieldType::Int), ("currency", FieldType::Text)]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let currency = compile_currency(&mut options);
        let allow_negative = options.flag("allow_negative");
        options.finish(currency.map(|currency| Self { currency, allow_negative }))
    }

    /// Whether an amount can be less than nothing.
    pub const fn allows_negative(&self) -> bool {
        self.allow_negative
    }

    pub(super) fn resolve(&self, value: &Value, args: &Map<String, Value>) -> Result<Resolution, Refusal> {
        let currency = self.currency.of(args)?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => plain_text(number)?,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(Refusal::unresolvable("not_a_number", "an amount is a number or a decimal text"));
            }
        };
        let minor = parse_minor(&text, currency.digits)?;
        if value.is_f64() && minor.abs() > GREATEST_MINOR_OF_DOUBLE {
            return Err(Refusal::unresolvable("too_great", "so great an amount must be written as a string"));
        }
        if minor < 0 && !self.allow_negative {
            return Err(Refusal::constraint("negative", "the policy permits no negative amount"));
        }
        let value = json!({
            "amount": amount_text(minor, currency.digits),
            "minor": minor,
            "currency": currency.code,
        });
        Ok(Resolution { value, obligations: Map::new() })
    }
}

impl CurrencySource {
    fn of(&self, args: &Map<String, Value>) -> Result<Currency, Refusal> {
        let keys = match self {
            Self::Fixed(currency) => return Ok(*currency),
            Self::Argument(keys) => keys,
        };
        let mut keys = keys.iter();
        let first = keys.next().and_then(|key| args.get(key));
        let found = keys.fold(first, |value, key| value?.as_object()?.get(key));
        let written = found
            .and_then(Value::as_str)
            .ok_or_else(|| Refusal::unresolvable("no_currency", "the argument that names the currency is not there"))?;
        Currency::find(written)
            .ok_or_else(|| Refusal::unresolvable("unknown_currency", "the currency is none of ISO 4217"))
    }
}

/// A number without exponent, in the fewest digits that read back as the same number.
fn plain_text(number: &Number) -> Result<String, Refusal> {
    if number.is_i64() || number.is_u64() {
        return Ok(number.to_string());
    }
    match number.as_f64() {
        Some(float) if float.is_finite() => Ok(float.to_string()),
        Some(_) | None => Err(Refusal::unresolvable("not_a_number", "the amount is no finite number")),
    }
}

/// The amount in the smallest unit, exactly.
fn parse_minor(text: &str, digits: u32) -> Result<i64, Refusal> {
    let odd = || Refusal::unresolvable("amount", "the amount is no plain decimal number");
    if text.is_empty() {
        return Err(Refusal::unresolvable("empty", "an amount is not empty"));
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text),
    };
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((_, "")) => return Err(odd()),
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || (whole.starts_with('0') && whole != "0") {
        return Err(odd());
    }
    let width = usize::try_from(digits).unwrap_or(usize::MAX);
    if fraction.len() > width {
        return Err(Refusal::unresolvable("too_many_digits", "the amount has more digits than its currency"));
    }
    let too_great = || Refusal::unresolvable("too_great", "the amount is too great to be held exactly");
    if text.len() > LONGEST_AMOUNT {
        return Err(too_great());
    }
    let minor: i64 = format!("{whole}{fraction:0<width$}").parse().map_err(|_| too_great())?;
    if minor > GREATEST_MINOR {
        return Err(too_great());
    }
    if negative && minor == 0 {
        return Err(Refusal::unresolvable("negative_zero", "the amount is a zero with a sign"));
    }
    Ok(if negative { -minor } else { minor })
}

/// The amount with exactly the digits of its currency.
fn amount_text(minor: i64, digits: u32) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let minor = minor.unsigned_abs();
    let unit = 10_u64.pow(digits);
    let (whole, fraction) = (minor / unit, minor % unit);
    if digits == 0 {
        return format!("{sign}{whole}");
    }
    let width = usize::try_from(digits).unwrap_or_default();
    format!("{sign}{whole}.{fraction:0width$}")
}

fn compile_currency(options: &mut Options<'_>) -> Option<CurrencySource> {
    let hint = "write currency = \"EUR\", or currency = \"/currency\" for the argument that holds it";
    let given = options.has("currency");
    let Some(written) = options.text("currency") else {
        if !given {
            options.missing("an amount of money needs its currency", hint);
        }
        return None;
    };
    if let Some(pointer) = written.strip_prefix('/') {
        let keys: Vec<String> = pointer.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
        if keys.iter().any(|key| key.is_empty() || key == "*") {
            options.fault("currency", "the pointer must name one argument, without `*` and empty keys", hint);
            return None;
        }
        return Some(CurrencySource::Argument(keys));
    }
    match Currency::find(written) {
        Some(currency) if currency.code == written => Some(CurrencySource::Fixed(currency)),
        Some(currency) => {
            options.fault(
                "currency",
                "codes are written in capitals",
                format!("write currency = \"{}\"", currency.code),
            );
            None
        }
        None => {
            options.fault("currency", "it is neither a code of ISO 4217 nor a JSON Pointer", hint);
            None
        }
    }
}
