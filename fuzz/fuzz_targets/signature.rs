//! A line with a public key, a signature of four lines, then what it signs: nothing panics, and what is verified is not when
//! another byte follows it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some((key, rest)) = text.split_once('\n') else { return };
    let ends = rest.match_indices('\n').map(|(at, _)| at + 1);
    let end = ends.take(4).last().unwrap_or(rest.len());
    let (signature, signed) = rest.split_at(end);
    if belljar::cli::verify_signature(key, signed.as_bytes(), signature).is_ok() {
        let more = format!("{signed}.");
        belljar::cli::verify_signature(key, more.as_bytes(), signature).expect_err("it is another text");
    }
});
