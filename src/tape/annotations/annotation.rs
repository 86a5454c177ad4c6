//! One annotation, and what can be wrong with it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Defines an enum of names, which keeps those that it does not know.
macro_rules! names {
    ($(#[$doc:meta])* $enum:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $enum {
            $($(#[$variant_doc])* $variant,)*
            /// One that this version does not know. It survives as it is.
            Unknown(String),
        }

        impl $enum {
            /// Its name in the file.
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
    /// What an annotation says of its record.
    AnnotationKind {
        /// It is right.
        Correct = "correct",
        /// It is wrong.
        Incorrect = "incorrect",
        /// Something else would have been as good or better.
        Alternative = "alternative",
        /// A remark.
        Note = "note",
        /// A place to find again.
        Marker = "marker",
        /// Noise, which a viewer may hide.
        Mute = "mute",
        /// A guess at why; [`Annotation::hypothesis_status`] says how it stands.
        Hypothesis = "hypothesis",
        /// Something that got in the way; [`Annotation::friction_kind`] says what.
        Friction = "friction",
        /// What was done here is worth making a program of.
        CrystallizeHere = "crystallize_here",
    }
}

names! {
    /// How a hypothesis stands.
    HypothesisStatus {
        /// Held.
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
    /// What an author is.
    AuthorKind {
        /// A person.
        Human = "human",
        /// A program that decides by itself.
        Agent = "agent",
        /// A fixed rule.
        System = "system",
    }
}

/// Who made an annotation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Author {
    /// The author's name.
    pub id: String,
    /// What the author is.
    pub kind: AuthorKind,
    /// Where the annotation was made: `cli`, `editor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
}

/// A stretch of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// The `seq` of its first record.
    pub start_event_id: u64,
    /// The `seq` of its last record.
    pub end_event_id: u64,
}

/// Something said of a record, or of a stretch of records.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Annotation {
    /// Its name, which no other in the file has.
    pub id: String,
    /// The `seq` of the record.
    pub event_id: u64,
    /// What it says.
    pub kind: AnnotationKind,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_fix: Option<String>,
    /// Who says it.
    pub author: Author,
    /// When it was said, as RFC 3339.
    pub timestamp: String,
    /// The stretch that it is about, if it is not the record alone. The record lies in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// How a hypothesis stands. A hypothesis has it, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis_status: Option<HypothesisStatus>,
    /// What got in the way. A friction has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friction_kind: Option<String>,
    /// Where there is more: URLs, or the `id` of other annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Fields that this version does not know. They survive as they are.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Annotation {
    /// What is wrong with it, whatever the tape.
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
                found.push(format!("its span ends at {end}, before it starts at {start}"));
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
                    "a hypothesis_status is for a hypothesis, and this is: {}",
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

    /// The records that it names, with what they are to it.
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
            found.push(format!("the kind {name:?} is unknown"));
        }
        if let AuthorKind::Unknown(name) = &self.author.kind {
            found.push(format!("the kind of author {name:?} is unknown"));
        }
        if let Some(HypothesisStatus::Unknown(name)) = &self.hypothesis_status {
            found.push(format!("the hypothesis_status {name:?} is unknown"));
        }
        found
    }

    /// Whether it says something of the record `seq`.
    pub(super) fn covers(&self, seq: u64) -> bool {
        let is_in = |span: Span| (span.start_event_id..=span.end_event_id).contains(&seq);
        self.event_id == seq || self.span.is_some_and(is_in)
    }
}
