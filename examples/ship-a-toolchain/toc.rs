//! `toc FILE...`: writes the table of contents of Markdown files between `<!-- toc -->` and `<!-- /toc -->`.

use std::process::ExitCode;

const BEGIN: &str = "<!-- toc -->\n";
const END: &str = "<!-- /toc -->";

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        if let Err(error) = update(&path) {
            eprintln!("toc: {path}: {error}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn update(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("it has no line <!-- toc -->")?;
    let (_, after) = rest.split_once(END).ok_or("it has no <!-- /toc -->")?;
    let lines: String = after
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| format!("- [{title}](#{})\n", title.to_lowercase().replace(' ', "-")))
        .collect();
    std::fs::write(path, format!("{before}{BEGIN}{lines}{END}{after}"))?;
    Ok(())
}
