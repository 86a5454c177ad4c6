//! One annotation, and its validation.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Defines an enum of names that keeps unknown ones.
macro_rules! names {
    ($(#[$doc:meta])* $enum:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $enum {
            $($(#[$variant_doc])* $variant,)*
            /// A name that this version does not know. It is kept as it is.
            Unknown(String),
        }

        impl $enum {
            /// The name in the file.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(name) => name,
                }
            }
        }

        impl From<String> for $enum {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($name => Self::$variant,)*
                    _ => Self::Unknown(name),
                }
            }
        }

        impl From<$enum> for String {
            fn from(value: $enum) -> Self {
                value.name().to_owned()
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

names! {
    /// What an annotation says about its record.
    AnnotationKind {
        /// The record is right.
        Correct = "correct",
        /// The record is wrong.
        Incorrect = "incorrect",
        /// Something else would have been as good or better.
        Alternative = "alternative",
        /// A remark.
        Note = "note",
        /// A place to find again.
        Marker = "marker",
        /// Noise, which a viewer may hide.
        Mute = "mute",
        /// A guess at the cause; [`Annotation::hypothesis_status`] is its status.
        Hypothesis = "hypothesis",
        /// An obstacle; [`Annotation::friction_kind`] says which.
        Friction = "friction",
        /// Worth turning into a program.
        CrystallizeHere = "crystallize_here",
    }
}

names! {
    /// The status of a hypothesis.
    HypothesisStatus {
        /// Assumed to be true.
        Active = "active",
        /// Being tried.
        Verifying = "verifying",
        /// Found true.
        Confirmed = "confirmed",
        /// Found false.
        Disproven = "disproven",
        /// No longer of interest.
        Stale = "stale",
    }
}

names! {
    /// The kind of an author.
    AuthorKind {
        /// A person.
        Human = "human",
        /// A program that makes its own decisions.
        Agent = "agent",
        /// A fixed rule.
        System = "system",
    }
}

/// The author of an annotation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Author {
    /// The author's name.
    pub id: String,
    /// The kind of author.
    pub kind: AuthorKind,
    /// Where the annotation was made: `cli`, `editor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
}

/// A range of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// The `seq` of its first record.
    pub start_event_id: u64,
    /// The `seq` of its last record.
    pub end_event_id: u64,
}

/// A remark on a record or a range of records.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Annotation {
    /// Its id, unique in the file.
    pub id: String,
    /// The `seq` of the record.
    pub event_id: u64,
    /// The kind of remark.
    pub kind: AnnotationKind,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_fix: Option<String>,
    /// Its author.
    pub author: Author,
    /// When it was made, as RFC 3339.
    pub timestamp: String,
    /// The range that it is about, if not only the record. The record is in the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// The status of a hypothesis: required for a hypothesis, not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis_status: Option<HypothesisStatus>,
    /// The obstacle; required for a friction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friction_kind: Option<String>,
    /// URLs, or the `id` of other annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Any other data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Fields that this version does not know. They are kept as they are.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Annotation {
    /// All problems that do not depend on the tape.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.id.is_empty() {
            found.push("its id is empty".to_owned());
        }
        if self.timestamp.parse::<jiff::Timestamp>().is_err() {
            let timestamp = &self.timestamp;
            found.push(format!(
                "its timestamp {timestamp:?} is not RFC 3339, such as 2024-05-01T12:00:00Z"
            ));
        }
        if let Some(Span { start_event_id: start, end_event_id: end }) = self.span {
            if start > end {
                found.push(format!("its span ends at {end}, before its start at {start}"));
            } else if !(start..=end).contains(&self.event_id) {
                found.push(format!(
                    "its event {} is not in its span, {start} to {end}",
                    self.event_id
                ));
            }
        }
        let is_hypothesis = self.kind == AnnotationKind::Hypothesis;
        match &self.hypothesis_status {
            None if is_hypothesis => {
                found.push("a hypothesis needs a hypothesis_status".to_owned());
            }
            Some(_) if !is_hypothesis => {
                found.push(format!(
                    "hypothesis_status is only allowed for a hypothesis, and the kind is {}",
                    self.kind
                ));
            }
            _ => {}
        }
        if self.kind == AnnotationKind::Friction && self.friction_kind.is_none() {
            found.push("a friction needs a friction_kind".to_owned());
        }
        found
    }

    /// The records that it names, with their roles.
    pub(super) fn events(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let span = self.span.map(|span| {
            [(span.start_event_id, "its span starts at"), (span.end_event_id, "its span ends at")]
        });
        std::iter::once((self.event_id, "it is about")).chain(span.into_iter().flatten())
    }

    /// The names in it that this version does not know.
    pub(super) fn unknown_names(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let AnnotationKind::Unknown(name) = &self.kind {
            found.push(format!("unknown kind {name:?}"));
        }
        if let AuthorKind::Unknown(name) = &self.author.kind {
            found.push(format!("unknown kind of author {name:?}"));
        }
        if let Some(HypothesisStatus::Unknown(name)) = &self.hypothesis_status {
            found.push(format!("unknown hypothesis_status {name:?}"));
        }
        found
    }

    /// Whether it is about the record `seq`.
    pub(super) fn covers(&self, seq: u64) -> bool {
        let is_in = |span: Span| (span.start_event_id..=span.end_event_id).contains(&seq);
        self.event_id == seq || self.span.is_some_and(is_in)
    }
}
