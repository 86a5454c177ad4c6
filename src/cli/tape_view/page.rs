//! The page: one file of HTML with its styles, its script and its data, which needs no network and runs nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::super::replaceable::PAGE_BEGINNING;

const BODY: &str = include_str!("page/body.html");

const STYLE: &str = include_str!("page/page.css");

/// The parts of the script, in their order: each one uses what earlier ones define.
const SCRIPT: &[&str] = &[
    include_str!("page/text.js"),
    include_str!("page/tape.js"),
    include_str!("page/list.js"),
    include_str!("page/kinds.js"),
    include_str!("page/records.js"),
    include_str!("page/timeline.js"),
    include_str!("page/processes.js"),
    include_str!("page/files.js"),
    include_str!("page/run.js"),
    include_str!("page/compare.js"),
    include_str!("page/main.js"),
];

/// A page under construction.
pub struct Page(String);

impl Page {
    /// A page without data.
    pub fn new() -> Self {
        // A parser of HTML takes `\r\n` for `\n` before the browser hashes a script.
        let style = STYLE.replace('\r', "");
        let script = format!("\"use strict\";\n{}", SCRIPT.concat().replace('\r', ""));
        let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
        // What is not allowed here cannot be loaded, run or sent, whatever a tape holds.
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
            hash(&script),
            hash(&style),
        );
        let mut html = String::from(PAGE_BEGINNING);
        html.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"");
        html.push_str(&policy);
        html.push_str("\">\n<meta name=\"viewport\" content=\"width=device-width\">\n");
        html.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
        html.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        html.push_str("<title>Belljar tape</title>\n<style>");
        html.push_str(&style);
        html.push_str("</style>\n");
        html.push_str(&BODY.replace('\r', ""));
        // The script runs when all data is there.
        html.push_str("<script type=\"module\">");
        html.push_str(&script);
        html.push_str("</script>\n");
        Self(html)
    }

    /// Adds data that the script finds under `name`. `packed` is base64.
    pub fn add(&mut self, name: &str, packed: &str) {
        self.0.push_str("<script type=\"text/plain\" id=\"");
        self.0.push_str(name);
        self.0.push_str("\">");
        self.0.push_str(packed);
        self.0.push_str("</script>\n");
    }

    /// The file.
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_no_way_around_the_policy() {
        let page = Page::new().finish();
        assert!(page.starts_with(PAGE_BEGINNING));
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</script").count(), 1);
        for refused in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " onclick=",
            "style=\"",
            "http:",
            "https:",
        ] {
            assert!(!page.contains(refused), "the page has {refused}");
        }
    }
}
