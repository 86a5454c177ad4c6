//! Values for templates: lists and objects that count accesses to their items.
//!
//! One instruction may visit a whole list, as `in` and `==` do, so a limit of instructions is not
//! enough. After too many visits, lists appear empty: the rendering ends soon, and fails.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Enumerator, Object, ObjectRepr, Value as TemplateValue};
use minijinja::{Error, ErrorKind};
use serde::Deserialize;
use serde_json::Value;

/// Item visits per call.
const ITEMS_MAX: u64 = 10_000_000;

/// Bytes of text that the instructions of a rendering may read if each reads the longest text.
const TEXT_BYTES_MAX: u64 = 2_000_000_000;

/// Maximum length of a `range`.
const RANGE_MAX: u64 = 100_000;

/// Number of item visits.
#[derive(Clone, Default, Debug)]
pub(super) struct Work(Arc<AtomicU64>);

impl Work {
    fn spend(&self, items: usize) {
        self.0.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Whether the limit is exceeded.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) > ITEMS_MAX
    }

    /// Wraps `value` for a template.
    pub fn counted(&self, value: Value) -> TemplateValue {
        match value {
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.counted(item)).collect();
                TemplateValue::from_object(List { items, work: self.clone() })
            }
            Value::Object(fields) => {
                let fields =
                    fields.into_iter().map(|(name, value)| (name.into(), self.counted(value)));
                TemplateValue::from_object(Fields { fields: fields.collect(), work: self.clone() })
            }
            // Scalars need no wrapper.
            plain => TemplateValue::deserialize(plain).unwrap_or_default(),
        }
    }

    /// The numbers from `start` to `end`, exclusive, by `step`.
    ///
    /// # Errors
    /// There are too many, or `step` is 0.
    pub fn range(
        &self,
        start: i64,
        end: Option<i64>,
        step: Option<i64>,
    ) -> Result<Vec<i64>, Error> {
        let bad = |problem: &'static str| Error::new(ErrorKind::InvalidOperation, problem);
        let (start, end) = end.map_or((0, start), |end| (start, end));
        let step = step.unwrap_or(1);
        let distance = start.abs_diff(end);
        let is_empty = if step > 0 { start >= end } else { start <= end };
        let length = match step {
            0 => return Err(bad("cannot create range with step of 0")),
            _ if is_empty => 0,
            step => distance.div_ceil(step.unsigned_abs()),
        };
        if length > RANGE_MAX {
            return Err(bad("range has too many elements"));
        }
        if self.is_over() {
            return Ok(Vec::new());
        }
        self.spend(usize::try_from(length).unwrap_or(usize::MAX));
        let next = |number: &i64| number.checked_add(step);
        let numbers = std::iter::successors((length > 0).then_some(start), next);
        Ok(numbers.take(usize::try_from(length).unwrap_or(usize::MAX)).collect())
    }
}

/// The limit of instructions if the longest text has `text_bytes`.
pub(super) fn fuel_for(text_bytes: usize, fuel: u64) -> u64 {
    fuel.min(TEXT_BYTES_MAX / (text_bytes as u64).max(1))
}

/// The length of the longest text within `value`.
pub(super) fn longest_text(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(fields) => {
            let longest = |(name, value): (&String, &Value)| name.len().max(longest_text(value));
            fields.iter().map(longest).max().unwrap_or(0)
        }
        _ => 0,
    }
}

struct List {
    items: Vec<TemplateValue>,
    work: Work,
}

struct Fields {
    fields: BTreeMap<Arc<str>, TemplateValue>,
    work: Work,
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.fmt(f)
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &TemplateValue) -> Option<TemplateValue> {
        self.work.spend(1);
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.work.is_over() { Enumerator::Empty } else { Enumerator::Seq(self.items.len()) }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

impl Object for Fields {
    fn get_value(self: &Arc<Self>, key: &TemplateValue) -> Option<TemplateValue> {
        self.work.spend(1);
        self.fields.get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.work.is_over() {
            return Enumerator::Empty;
        }
        self.work.spend(self.fields.len());
        let name = |name: &Arc<str>| TemplateValue::from(Arc::clone(name));
        Enumerator::Values(self.fields.keys().map(name).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.fields.len())
    }
}
