//! Tests of the parser.

use super::*;
use crate::kernel::machine::memory::Memory;

fn parse(source: &[u8], line: u32) -> Result<List, SyntaxError> {
    Ok(super::parse(source, line, Memory::new(u64::MAX).charge())?.0)
}

fn refusal(source: &str) -> String {
    parse(source.as_bytes(), 1).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn constructs_outside_posix_are_refused_by_name() {
    let refused = [
        ("true\n[[ a = a ]]", "line 2: [[ … ]]"),
        ("a=(1 2)", "line 1: an array"),
        ("a[1]=x", "line 1: an array"),
        ("((x = 1))", "line 1: ((…))"),
        ("cat <(echo)", "line 1: process substitution"),
        ("select x in a; do :; done", "line 1: select"),
        ("function f { :; }", "line 1: function"),
        ("coproc x", "line 1: coproc"),
        ("cat &> f", "line 1: &>"),
        ("cat <<< x", "line 1: <<<"),
        ("echo ${x//a/b}", "line 1: ${x/a/b}"),
        ("echo ${x:1:2}", "line 1: ${x:1:2}"),
        ("echo {a,b}", "line 1: brace expansion"),
        ("echo $'a'", "line 1: $'…'"),
        ("a+=b", "line 1: +="),
        ("f() { echo \"$( : ; [[ x ]] )\"; }", "line 1: [[ … ]]"),
        ("for ((;;)); do :; done", "line 1: for ((…))"),
        ("a | b |& c", "line 1: |&"),
    ];
    for (source, what) in refused {
        assert_eq!(refusal(source), format!("{what} is not supported: POSIX does not have it"));
    }
}

#[test]
fn syntax_errors_name_the_line() {
    assert_eq!(refusal("echo\nfi x"), "2: Syntax error: \"fi\" unexpected");
    assert_eq!(refusal("if true"), "1: Syntax error: end of file unexpected (expecting \"then\")");
    assert_eq!(refusal("echo '"), "1: Syntax error: Unterminated quoted string");
    assert_eq!(refusal("99999999999>x"), "1: Syntax error: bad file descriptor number");
}

const COMMANDS: [(&str, &str); 6] = [
    ("( ", ")"),
    ("{ ", "; }"),
    ("if ", "; then :; fi"),
    ("while ", "; do :; done"),
    ("case x in x) ", "; esac"),
    ("f() { ", "; }"),
];

fn nested((open, close): (&str, &str), depth: usize) -> String {
    format!("{}:{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn memory_limits_the_nesting_of_commands() {
    for command in COMMANDS {
        let deep = nested(command, 20_000);
        assert!(parse(deep.as_bytes(), 1).is_ok(), "{command:?}");
        let unclosed = command.0.repeat(20_000);
        assert!(refusal(&unclosed).starts_with("1: Syntax error: end of file unexpected"));
        let little = Memory::new(16 << 20);
        let refused = super::parse(deep.as_bytes(), 1, little.charge()).map(|_| ());
        assert!(matches!(refused, Err(SyntaxError::Memory { .. })), "{command:?}");
    }
}

#[test]
fn quotes_and_expansions_nest_at_most_200_deep() {
    for word in [("$(", ")"), ("${a-", "}"), ("\"${a-", "}\""), ("$((", "))"), ("\"$(", ")\"")] {
        assert!(parse(nested(word, 50).as_bytes(), 1).is_ok(), "{word:?}");
        let what = "1: Syntax error: quotes and expansions nested more than 200 deep";
        assert_eq!(refusal(&nested(word, 10_000)), what, "{word:?}");
    }
}

#[test]
fn esac_ends_its_case() {
    for end in ["; esac ", ";; esac ", "& esac "] {
        let source = format!("{}:{}", "case x in x) ".repeat(1500), format!(" {end}").repeat(1500));
        assert!(parse(source.as_bytes(), 1).is_ok(), "{end}");
    }
    let in_a_row = "case x in a|b) :;; (x) case y in esac;; *) esac; ".repeat(20_000);
    assert!(parse(in_a_row.as_bytes(), 1).is_ok());
    let in_the_middle = format!("{} fi; {}", "case x in x)\n".repeat(100), "esac ".repeat(100));
    assert_eq!(
        refusal(&in_the_middle),
        "101: Syntax error: \"fi\" unexpected (expecting \"esac\")"
    );
}

#[test]
fn malformed_case_is_refused() {
    for (source, what) in [
        ("case x y", "\"y\" unexpected (expecting \"in\")"),
        ("case x; in", "\";\" unexpected (expecting \"in\")"),
        ("case x in a b) ;; esac", "\"b\" unexpected (expecting \")\")"),
        ("case x in a|) ;; esac", "\")\" unexpected"),
        ("case x in a) fi ;; esac", "\"fi\" unexpected (expecting \"esac\")"),
        ("case x in a) if ;; esac", "\";;\" unexpected"),
        ("case x in a) :; esac; esac", "\"esac\" unexpected"),
        ("case", "end of file unexpected"),
    ] {
        assert_eq!(refusal(source), format!("1: Syntax error: {what}"), "{source}");
    }
}

#[test]
fn unexpected_token_is_named_with_its_line() {
    for (source, what) in [
        ("true\nif true; fi", "2: Syntax error: \"fi\" unexpected (expecting \"then\")"),
        ("while true; done", "1: Syntax error: \"done\" unexpected (expecting \"do\")"),
        ("for x in a b\ndone", "2: Syntax error: \"done\" unexpected (expecting \"do\")"),
        ("for 1 in a; do :; done", "1: Syntax error: Bad for loop variable"),
        ("{ a; ", "1: Syntax error: end of file unexpected (expecting \"}\")"),
        ("(a; }", "1: Syntax error: \"}\" unexpected (expecting \")\")"),
        ("a && ; b", "1: Syntax error: \";\" unexpected"),
        ("a\n\n| b", "3: Syntax error: \"|\" unexpected"),
        ("a > ; b", "1: Syntax error: \";\" unexpected"),
        ("echo (a)", "1: Syntax error: \"a\" unexpected (expecting \")\")"),
        ("{ a; } \"$b\"", "1: Syntax error: word unexpected"),
        ("! ! a", "1: Syntax error: \"!\" unexpected"),
        ("in", "1: Syntax error: \"in\" unexpected"),
        ("1x() { :; }", "1: Syntax error: Bad function name"),
        ("f() a", "1: Syntax error: \"a\" unexpected"),
        ("a < 2>b", "1: Syntax error: \"2\" unexpected"),
        ("echo $(cat <<E)", "1: Syntax error: here-document without a body"),
        ("echo \"$(a", "1: Syntax error: end of file unexpected (expecting \")\")"),
    ] {
        assert_eq!(refusal(source), what, "{source}");
    }
}

/// The line was that of the script's first command.
#[test]
fn command_that_begins_with_a_redirection_has_its_own_line() {
    let list = parse(b"a\n>f b\n", 1).unwrap();
    let lines: Vec<u32> = list.iter().map(|item| item.chain.first.parts[0].line).collect();
    assert_eq!(lines, [1, 2]);
}

#[test]
fn redirections_need_no_blank_between_them() {
    let list = parse(b"a 2>&1<f 3<&04>&-", 1).unwrap();
    let fds = list[0].chain.first.parts[0].redirects.iter().map(|redirect| redirect.fd);
    assert_eq!(fds.collect::<Vec<_>>(), [2, 0, 3, 1]);
}

#[test]
fn case_is_parsed_before_a_closing_parenthesis() {
    for source in [
        "(case a in a) :;; esac)",
        "echo $(case a in a) :;; (b) :; esac)",
        "(case x in x) ;; esac | cat)",
        "f() case x in (esac) ;; esac",
        "case in in in) :; esac > x",
    ] {
        assert!(parse(source.as_bytes(), 1).is_ok(), "{source}");
    }
}
