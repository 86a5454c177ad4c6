//! Two tapes side by side: which records are pairs, and what differs in those that differ.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use super::super::exit::Usage;
use super::index::packed;
use super::page::Page;
use crate::tape::{CompareError, Divergence, FidelityMode, Paired, compare_paired};

/// Runs of pairs that a page shows.
const RUNS_MAX: usize = 1_000_000;

/// Differences whose details a page has.
const DETAILED_MAX: usize = 500;

/// What the page has of the comparison.
#[derive(Serialize)]
struct Comparison<'a> {
    /// For each run of pairs how they stand to each other (0 equal, 1 changed, 2 missing, 3 extra), and their number.
    runs: Vec<u64>,
    /// Runs that are left out.
    runs_left_out: usize,
    divergence_count: u64,
    /// The details of the first records or pairs that differ, in their order.
    divergences: &'a [Divergence],
    header_differences: Vec<[&'a str; 3]>,
}

/// Compares two tapes for `page`; returns the number of differences and the first one, for the report.
///
/// # Errors
/// [`Usage`] if a tape cannot be read to its end.
pub fn add(page: &mut Page, a: &Path, b: &Path) -> Result<serde_json::Value> {
    let (mut report, runs) = match compare_paired(a, b, FidelityMode::Semantic) {
        Err(CompareError::Tape(error)) => return Err(Usage::because(error).into()),
        compared => compared?,
    };
    for divergence in &mut report.divergences {
        // The page has the records around it.
        divergence.before.clear();
        divergence.after.clear();
    }
    let shown = &runs[..runs.len().min(RUNS_MAX)];
    let number = |paired: Paired| match paired {
        Paired::Equal => 0,
        Paired::Changed => 1,
        Paired::Missing => 2,
        Paired::Extra => 3,
    };
    let comparison = Comparison {
        runs: shown.iter().flat_map(|run| [number(run.paired), run.records]).collect(),
        runs_left_out: runs.len() - shown.len(),
        divergence_count: report.divergence_count,
        divergences: &report.divergences[..report.divergences.len().min(DETAILED_MAX)],
        header_differences: report
            .header_differences
            .iter()
            .map(|it| [it.field.as_str(), it.recorded.as_str(), it.replay.as_str()])
            .collect(),
    };
    page.add("comparison", &packed(&serde_json::to_vec(&comparison)?));
    let first = report.divergences.first();
    Ok(json!({
        "count": report.divergence_count,
        "first": first.map(|it| json!({ "seq": it.seq, "category": it.category })),
    }))
}
