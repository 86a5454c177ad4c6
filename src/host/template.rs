//! `template.render`: templates with bounded work, memory and output.
//!
//! Guests write templates. Constructs that could make a value much larger than its input are
//! refused when a template is read; then fuel and length limits bound memory.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as TemplateValue;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::HostError;
use super::json;
use super::template_tags::check;
use super::template_values::{self, Work};

/// Size limit of a template.
pub(super) const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Limit of templates in one rendering.
const TEMPLATES_MAX: usize = 64;

/// Approximate limit of instructions.
const FUEL: u64 = 1_000_000;

/// Maximum width of `indent`.
const INDENT_MAX: usize = 1000;

/// Stack of a rendering: includes and blocks nest.
const STACK_BYTES: usize = 16 << 20;

/// Parameters of `template.render`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenderParams {
    /// A template's path in the namespace.
    path: Option<String>,
    /// A template's text.
    text: Option<String>,
    /// The variables.
    #[serde(default)]
    vars: Map<String, Value>,
}

/// Renders a template as `params` say; `read` reads files of the namespace.
///
/// # Errors
/// [`HostError`]: invalid parameters or an invalid template, with its line.
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
            let text_bytes = check(name, "text", &text)?;
            known.insert("text".to_owned(), Some((text, text_bytes)));
            "text".to_owned()
        }
        _ => return Err(HostError::params(name, "expected either `path` or `text`")),
    };
    let vars = Value::Object(vars);
    let (work, text_bytes) = (Work::default(), template_values::longest_text(&vars));
    let vars = work.counted(vars);
    // An included template is read when it is found missing, and the rendering starts anew.
    let mut missing = (!known.contains_key(&first)).then(|| first.clone());
    loop {
        let mut unread = None;
        if let Some(path) = missing.take() {
            if known.len() >= TEMPLATES_MAX {
                let problem = format!("more than {TEMPLATES_MAX} templates in one rendering");
                return Err(HostError::failed(name, problem));
            }
            match read(&path) {
                Ok(bytes) => {
                    let text = String::from_utf8(bytes)
                        .map_err(|_| HostError::failed(name, format!("{path}: it is not UTF-8")))?;
                    let text_bytes = check(name, &path, &text)?;
                    known.insert(path, Some((text, text_bytes)));
                }
                Err(why) => {
                    unread = Some(HostError::failed(name, format!("{path}: {why}")));
                    known.insert(path, None);
                }
            }
        }
        let wanted = Arc::new(Mutex::new(None));
        let text_bytes = known.values().flatten().map(|known| known.1).fold(text_bytes, usize::max);
        let fuel = template_values::fuel_for(text_bytes, FUEL);
        let rendered = stacker::grow(STACK_BYTES, || {
            let mut environment = environment(&work, fuel, output_bytes_max)?;
            let (known, wanted) = (known.clone(), wanted.clone());
            environment.set_loader(move |path: &str| {
                let found = known.get(path);
                if found.is_none() {
                    *wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
                }
                Ok(found.cloned().flatten().map(|(text, _)| text))
            });
            let mut output = Bounded { bytes: Vec::new(), bytes_max: output_bytes_max };
            environment.get_template(&first)?.render_captured_to(vars.clone(), &mut output)?;
            Ok(output.into_text())
        });
        if work.is_over() {
            return Err(HostError::failed(name, TOO_MUCH));
        }
        missing = wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if missing.is_none() {
            // `ignore missing` accepts an unreadable template.
            let failed = |error: Error| unread.unwrap_or_else(|| describe(name, &error));
            return rendered.map(Value::String).map_err(failed);
        }
    }
}

/// Templates by name, with the length of the longest string in a tag; `None` if unreadable.
type Known = HashMap<String, Option<(String, usize)>>;

const TOO_MUCH: &str = "the template exceeds its limit of work";

fn environment(
    work: &Work,
    fuel: u64,
    output_bytes_max: u64,
) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build()?;
    environment.set_syntax(syntax);
    environment.set_fuel(Some(fuel));
    environment.remove_global("debug");
    environment.remove_global("dict");
    environment.remove_global("namespace");
    let work = work.clone();
    environment.add_function("range", move |start, stop, step| work.range(start, stop, step));
    environment.add_test("divisibleby", |number: i128, by: i128| {
        by != 0 && number.checked_rem(by).unwrap_or(0) == 0
    });
    environment.add_filter("string", move |value: TemplateValue| {
        let mut text = Bounded { bytes: Vec::new(), bytes_max: output_bytes_max };
        write!(text, "{value}").map_err(|error| too_long(&error))?;
        Ok::<_, Error>(text.into_text())
    });
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
    Ok(environment)
}

fn too_long(error: &io::Error) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// A buffer with a limit.
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
            return Err(io::Error::other(format!("the text exceeds {max} bytes")));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn describe(name: &str, error: &Error) -> HostError {
    // The innermost error names the included template.
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
        ErrorKind::OutOfFuel => TOO_MUCH.to_owned(),
        kind => {
            error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"))
        }
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    HostError::failed(name, format!("{place}{what}{}", cause.unwrap_or_default()))
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
    fn templates_are_rendered() {
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
    fn template_error_names_its_line() {
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
    fn template_constructs_and_work_are_limited() {
        for (template, why) in [
            ("{% set x = s ~ s %}", "`set` is not allowed"),
            ("{% with x = 1 %}{% endwith %}", "`with` is not allowed"),
            ("{% macro m() %}{% endmacro %}", "`macro` is not allowed"),
            ("{% filter upper %}{% endfilter %}", "`filter` is not allowed"),
            ("{% for x in list recursive %}{% endfor %}", "`recursive` is not allowed"),
            ("{{ self.body() }}", "`self` is not allowed"),
            ("{{ 'x' * 100000000 }}", "multiplication is not allowed"),
            ("{{ s|replace('x', s) }}", "the filter `replace` is not allowed"),
            (
                "{{ list|join(s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s ~ s) }}",
                "too many concatenations",
            ),
            (
                "{% for a in range(1000) %}{% for b in range(1000) %}{{ s }}{% endfor %}{% endfor %}",
                "exceeds 1048576 bytes",
            ),
            (
                "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                "its limit of work",
            ),
            ("{{ range(1000000) }}", "too many elements"),
            ("{{ range(100000)|join(s) }}", "exceeds 1048576 bytes"),
            ("{% include 'itself' %}", "recursion"),
        ] {
            let error = text(template).unwrap_err();
            assert!(error.contains(why), "{template}: {error}");
        }
        for (template, why) in [
            ("{{ ''[::-1] }}", "a slice is not allowed"),
            ("{% for x in [s, s] %}{% endfor %}", "a name in a list"),
            ("{% for x in s, s %}{% endfor %}", "a list without brackets"),
            ("{% for x in (s, s) %}{% endfor %}", "a list without brackets"),
            ("{% for x in {'a': s}|items %}{% endfor %}", "a name in a list"),
            ("{% for x in [s]|string ~ '' %}{% endfor %}", "in a list"),
            ("{{ [[s] ~ ''] ~ '' }}", "a list in a tag with concatenations"),
            ("{{ dict(a=s) }}", "unknown function"),
        ] {
            let error = text(template).unwrap_err();
            assert!(error.contains(why), "{template}: {error}");
        }
        assert_eq!(
            text("{{ 1 is divisibleby(0) }}{{ 4 is divisibleby(2) }}"),
            Ok(json!("FalseTrue"))
        );
        let shown = "{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}{{ [list[0], s|length] }}\
                     {% for x in ['p', 2] %}{{ x }}{% endfor %}{% for x in range(5, 0, -2) %}{{ x }}{% endfor %}";
        assert_eq!(text(shown), Ok(json!("a1[1, 1000]p2531")));
    }

    /// Deep nesting overflowed the stack and aborted the process.
    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let repeated = [
            ("[1]", "|reverse"),
            ("1", "|string"),
            ("", "-"),
            ("", "not "),
            ("1", " and 1"),
            ("1", " - 1"),
            ("1", " if 1 else 2"),
            ("x", ".a"),
            ("x", "[0]"),
            ("x", "()"),
        ];
        for (first, again) in repeated {
            let error = text(&format!("{{{{ {first}{}1 }}}}", again.repeat(100_000))).unwrap_err();
            assert!(error.contains("tokens is not allowed"), "{again}: {error}");
        }
        let chain = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(70_000));
        assert!(text(&chain).unwrap_err().contains("`elif` is not allowed"));
        for (first, again) in repeated.iter().skip(3).take(4) {
            let again = again.repeat(100);
            assert!(text(&format!("{{{{ {first}{again}1 }}}}")).is_ok() || again.contains("1 -"));
        }
    }

    /// An instruction over a long list or text counted as much as any other.
    #[test]
    fn long_lists_and_texts_count_towards_the_work_limit() {
        let list: Vec<u32> = (0..100_000).collect();
        let vars = json!({ "list": list, "s": "x".repeat(1 << 20) });
        for template in [
            "{% for a in range(100000) %}{{ -1 in list }}{% endfor %}",
            "{% for a in range(100000) %}{{ list|max }}{% endfor %}",
            "{% for a in range(100000) %}{{ list == list }}{% endfor %}",
            "{% for a in range(100000) %}{{ range(100000)|join|length }}{% endfor %}",
            "{% for a in range(100000) %}{% if 'y' in s %}{% endif %}{% endfor %}",
        ] {
            let error = rendered(&json!({ "text": template, "vars": vars })).unwrap_err();
            assert!(error.contains("its limit of work"), "{template}: {error}");
        }
        let all = json!({ "text": "{% for x in list %}{{ x - x }}{% endfor %}", "vars": { "list": list } });
        assert_eq!(rendered(&all), Ok(json!("0".repeat(100_000))));
    }

    #[test]
    fn nested_brackets_are_bounded_by_the_tag_limit() {
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(text(&deep).is_err());
    }
}
