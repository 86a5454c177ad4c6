//! `template.render`: templates of the namespace, bounded in work, memory and output.
//!
//! Guests write templates, so that nothing in one may make a value much larger than what it is given:
//! what would is refused when the template is read. So memory is bounded by fuel and lengths alone.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as TemplateValue;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::HostError;
use super::json;

/// Bytes of one template.
pub(super) const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Templates that one includes or extends, itself among them.
const TEMPLATES_MAX: usize = 64;

/// Instructions of a rendering, roughly.
const FUEL: u64 = 1_000_000;

/// Columns that `indent` indents by.
const INDENT_MAX: usize = 1000;

/// Operators that join texts, in one tag.
const JOINS_MAX: usize = 16;

/// Stack for a rendering: includes and blocks are rendered within each other.
const STACK_BYTES: usize = 16 << 20;

/// What may begin a tag. Everything that keeps a text for later is left out.
const STATEMENTS: [&str; 10] =
    ["block", "elif", "else", "endblock", "endfor", "endif", "extends", "for", "if", "include"];

/// Filters whose results are not much larger than what they get; the last two are our own.
const FILTERS: [&str; 25] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "lower",
    "max",
    "min",
    "reverse",
    "round",
    "sort",
    "string",
    "title",
    "trim",
    "upper",
    "join",
    "indent",
];

/// What `template.render` takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenderParams {
    /// The template: a path of the namespace.
    path: Option<String>,
    /// The template itself.
    text: Option<String>,
    /// What it shows.
    #[serde(default)]
    vars: Map<String, Value>,
}

/// Renders what `params` ask for; `read` reads a file of the namespace.
///
/// # Errors
/// [`HostError`]: the parameters, or the template, with its line.
pub(super) fn render(
    name: &str,
    params: &Value,
    output_bytes_max: u64,
    mut read: impl FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Value, HostError> {
    let RenderParams { path, text, vars } = json::take(name, params)?;
    let mut known = Known::new();
    let first = match (path, text) {
        (Some(path), None) => path,
        (None, Some(text)) => {
            check(name, "text", &text)?;
            known.insert("text".to_owned(), Some(text));
            "text".to_owned()
        }
        _ => return Err(HostError::params(name, "expected either `path` or `text`")),
    };
    let vars = TemplateValue::deserialize(Value::Object(vars))
        .map_err(|error| HostError::params(name, error.to_string()))?;
    // A template is read when it turns out that it is needed, and all is rendered anew then.
    let mut missing = (!known.contains_key(&first)).then(|| first.clone());
    loop {
        let mut unread = None;
        if let Some(path) = missing.take() {
            if known.len() >= TEMPLATES_MAX {
                let problem = format!("more than {TEMPLATES_MAX} templates include each other");
                return Err(HostError::failed(name, problem));
            }
            match read(&path) {
                Ok(bytes) => {
                    let text = String::from_utf8(bytes)
                        .map_err(|_| HostError::failed(name, format!("{path}: it is not UTF-8")))?;
                    check(name, &path, &text)?;
                    known.insert(path, Some(text));
                }
                Err(why) => {
                    unread = Some(HostError::failed(name, format!("{path}: {why}")));
                    known.insert(path, None);
                }
            }
        }
        let wanted = Arc::new(Mutex::new(None));
        let rendered = stacker::grow(STACK_BYTES, || {
            render_known(&first, &vars, known.clone(), wanted.clone(), output_bytes_max)
        });
        missing = wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if missing.is_none() {
            // Nobody minds what is not there if it is included with `ignore missing`.
            let failed = |error: Error| unread.unwrap_or_else(|| describe(name, &error));
            return rendered.map(Value::String).map_err(failed);
        }
    }
}

/// Templates by their names; `None` for what cannot be read.
type Known = HashMap<String, Option<String>>;

fn render_known(
    first: &str,
    vars: &TemplateValue,
    known: Known,
    wanted: Arc<Mutex<Option<String>>>,
    output_bytes_max: u64,
) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build()?;
    environment.set_syntax(syntax);
    environment.set_fuel(Some(FUEL));
    environment.remove_global("debug");
    environment.remove_global("namespace");
    environment.add_filter("join", move |items: TemplateValue, between: Option<String>| {
        let between = between.unwrap_or_default();
        let mut joined = Bounded { bytes: Vec::new(), bytes_max: output_bytes_max };
        for (index, item) in items.try_iter()?.enumerate() {
            let between = if index == 0 { "" } else { &between };
            write!(joined, "{between}{item}").map_err(|error| too_long(&error))?;
        }
        Ok::<_, Error>(joined.into_text())
    });
    environment.add_filter("indent", move |text: String, width: usize, first: Option<bool>| {
        let mut indented = Bounded { bytes: Vec::new(), bytes_max: output_bytes_max };
        for (index, line) in text.split('\n').enumerate() {
            let is_indented = !line.is_empty() && (index > 0 || first == Some(true));
            let blanks = if is_indented { width.min(INDENT_MAX) } else { 0 };
            let end = if index == 0 { "" } else { "\n" };
            write!(indented, "{end}{:blanks$}{line}", "").map_err(|error| too_long(&error))?;
        }
        Ok::<_, Error>(indented.into_text())
    });
    environment.set_loader(move |path: &str| {
        let found = known.get(path);
        if found.is_none() {
            *wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
        }
        Ok(found.cloned().flatten())
    });
    let mut output = Bounded { bytes: Vec::new(), bytes_max: output_bytes_max };
    environment.get_template(first)?.render_captured_to(vars.clone(), &mut output)?;
    Ok(output.into_text())
}

fn too_long(error: &io::Error) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// An output that ends.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: u64,
}

impl Bounded {
    fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.bytes_max {
            let max = self.bytes_max;
            return Err(io::Error::other(format!("it has more than {max} bytes")));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn describe(name: &str, error: &Error) -> HostError {
    // What went wrong in an included template is within what went wrong in the one that includes it.
    let mut error = error;
    while let Some(inner) = std::error::Error::source(error).and_then(|inner| inner.downcast_ref())
    {
        error = inner;
    }
    let place = match (error.name(), error.line()) {
        (Some(template), Some(line)) => format!("{template}, line {line}: "),
        (Some(template), None) => format!("{template}: "),
        _ => String::new(),
    };
    let what = match error.kind() {
        ErrorKind::OutOfFuel => "it takes more work than a template may".to_owned(),
        kind => {
            error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"))
        }
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    HostError::failed(name, format!("{place}{what}{}", cause.unwrap_or_default()))
}

/// # Errors
/// The template holds what could make a value much larger.
fn check(name: &str, path: &str, text: &str) -> Result<(), HostError> {
    let mut joins = 0;
    let mut before = None;
    for token in tokenize(text, false, SyntaxConfig::default()) {
        // What is no template at all is told of when it is rendered.
        let Ok((token, span)) = token else { return Ok(()) };
        let refuse = |what: &str| {
            let line = span.start_line;
            let message = format!("{path}, line {line}: {what} is not there in templates");
            Err(HostError::failed(name, message))
        };
        match (&before, &token) {
            (_, Token::BlockStart | Token::VariableStart) => joins = 0,
            (Some(Token::BlockStart), Token::Ident(word)) if !STATEMENTS.contains(word) => {
                return refuse(&format!("`{word}`"));
            }
            (Some(Token::Pipe), Token::Ident(word)) if !FILTERS.contains(word) => {
                return refuse(&format!("the filter `{word}`"));
            }
            // What these answer is what a part of the template prints.
            (_, Token::Ident(word @ ("recursive" | "self" | "super"))) => {
                return refuse(&format!("`{word}`"));
            }
            (_, Token::Mul | Token::Pow) => return refuse("multiplication"),
            (_, Token::Tilde | Token::Plus) if joins == JOINS_MAX => {
                return refuse("a tag that joins so much");
            }
            (_, Token::Tilde | Token::Plus) => joins += 1,
            _ => {}
        }
        before = Some(token);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(params: &Value) -> Result<Value, String> {
        let files = |path: &str| match path {
            "page" => Ok(b"{% extends 'base' %}{% block body %}{{ name }}{% endblock %}".to_vec()),
            "base" => Ok(b"<{% block body %}{% endblock %}>".to_vec()),
            "itself" => Ok(b"{% include 'itself' %}".to_vec()),
            "broken" => Ok(b"one\ntwo {{ nme }}\n".to_vec()),
            _ => Err("no such file".to_owned()),
        };
        render("template.render", params, 1 << 20, files).map_err(|error| error.to_string())
    }

    fn text(text: &str) -> Result<Value, String> {
        rendered(
            &json!({ "text": text, "vars": { "name": "<b>", "list": [1, 2], "s": "x".repeat(1000) } }),
        )
    }

    #[test]
    fn templates_are_rendered_as_they_stand() {
        assert_eq!(
            rendered(&json!({ "path": "page", "vars": { "name": "a&b" } })),
            Ok(json!("<a&b>"))
        );
        assert_eq!(
            text("{% for x in list %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}"),
            Ok(json!("1, 2"))
        );
        assert_eq!(text("{{ name|upper ~ list|join('+') }}\n"), Ok(json!("<B>1+2\n")));
        assert_eq!(text("{{ 'a\nb'|indent(2, true) }}"), Ok(json!("  a\n  b")));
        assert_eq!(text("{% include 'nowhere' ignore missing %}x"), Ok(json!("x")));
        assert_eq!(text("{% raw %}{% set x %}{% endraw %}"), Ok(json!("{% set x %}")));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = rendered(&json!({ "path": "broken" })).unwrap_err();
        assert!(error.contains("broken, line 2: undefined value"), "{error}");
        assert!(text("\n{% if %}").unwrap_err().contains("text, line 2: syntax error"));
        assert!(rendered(&json!({ "path": "none" })).unwrap_err().contains("none: no such file"));
        assert!(text("{% include 'none' %}").unwrap_err().contains("none: no such file"));
        let error = rendered(&json!({ "path": "page", "name": 1 })).unwrap_err();
        assert!(error.contains("unknown field `name`") && error.contains("`vars`"), "{error}");
        assert!(rendered(&json!({})).unwrap_err().contains("either `path` or `text`"));
    }

    #[test]
    fn a_template_cannot_take_more_than_its_share() {
        for (template, why) in [
            ("{% set x = s ~ s %}", "`set` is not there"),
            ("{% with x = 1 %}{% endwith %}", "`with` is not there"),
            ("{% macro m() %}{% endmacro %}", "`macro` is not there"),
            ("{% filter upper %}{% endfilter %}", "`filter` is not there"),
            ("{% for x in list recursive %}{% endfor %}", "`recursive` is not there"),
            ("{{ self.body() }}", "`self` is not there"),
            ("{{ 'x' * 100000000 }}", "multiplication is not there"),
            ("{{ s|replace('x', s) }}", "the filter `replace` is not there"),
            (
                "{{ [s, s]|join(s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s) }}",
                "joins so much",
            ),
            (
                "{% for a in range(1000) %}{% for b in range(1000) %}{{ s }}{% endfor %}{% endfor %}",
                "more than 1048576 bytes",
            ),
            (
                "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                "more work than",
            ),
            ("{{ range(1000000) }}", "too many elements"),
            ("{{ range(100000)|join(s) }}", "more than 1048576 bytes"),
            ("{% include 'itself' %}", "recursion"),
        ] {
            let error = text(template).unwrap_err();
            assert!(error.contains(why), "{template}: {error}");
        }
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(text(&deep).is_err());
    }
}
