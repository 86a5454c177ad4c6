//! Answers that a test gives instead of whoever would.

use serde::Serialize;
use serde_json::Value;

use super::json::includes;

/// Calls that a scope remembers, and bytes of their parameters: a guest decides how many there are.
const CALLS_MAX: usize = 10_000;
const CALL_BYTES_MAX: usize = 16 << 20;

/// What a mocked operation answers.
#[derive(Clone, PartialEq, Debug)]
pub struct HostMock {
    answer: Result<Value, String>,
    params: Option<Value>,
}

impl HostMock {
    /// The call answers `value`.
    pub fn result(value: impl Into<Value>) -> Self {
        Self { answer: Ok(value.into()), params: None }
    }

    /// The call fails, and says `message`.
    pub fn error(message: impl Into<String>) -> Self {
        Self { answer: Err(message.into()), params: None }
    }

    /// It is for calls alone that pass at least these fields, at any depth. Arrays and everything
    /// else must be equal.
    #[must_use]
    pub fn params(mut self, params: impl Into<Value>) -> Self {
        self.params = Some(params.into());
        self
    }

    fn is_for(&self, params: &Value) -> bool {
        self.params.as_ref().is_none_or(|part| includes(params, part))
    }
}

/// A call that a mock has answered.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MockCall {
    /// The capability.
    pub capability: String,
    /// The operation.
    pub operation: String,
    /// What was passed.
    pub params: Value,
}

/// No scope was pushed that could be popped.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no scope of mocks was pushed: each pop needs a push of its own before it")]
pub struct NoMockScope;

crate::base::readable::readable!(NoMockScope);

/// The mocks, in scopes within each other.
#[derive(Default)]
pub struct Mocks {
    outermost: Scope,
    pushed: Vec<Scope>,
}

#[derive(Default)]
struct Scope {
    mocks: Vec<(String, HostMock)>,
    calls: Vec<MockCall>,
    call_bytes: usize,
}

impl Mocks {
    fn innermost(&mut self) -> &mut Scope {
        self.pushed.last_mut().unwrap_or(&mut self.outermost)
    }

    /// The latest last.
    fn all(&self) -> impl DoubleEndedIterator<Item = &(String, HostMock)> {
        std::iter::once(&self.outermost).chain(&self.pushed).flat_map(|scope| &scope.mocks)
    }

    /// Adds a mock of the operation `name` to the innermost scope.
    pub fn add(&mut self, name: String, mock: HostMock) {
        self.innermost().mocks.push((name, mock));
    }

    /// The latest mock of the operation `name` that is for calls with `params`.
    pub fn find(&self, name: &str, params: &Value) -> Option<&HostMock> {
        let is_for = |(of, mock): &&(String, HostMock)| of == name && mock.is_for(params);
        self.all().rev().find(is_for).map(|(_, mock)| mock)
    }

    /// What the latest mock answers that is for this call, which is noted; `None` if none is.
    pub fn answer(
        &mut self,
        capability: &str,
        operation: &str,
        params: &Value,
    ) -> Option<Result<Value, String>> {
        let answer = self.find(&format!("{capability}.{operation}"), params)?.answer.clone();
        let scope = self.innermost();
        let bytes = params.to_string().len();
        if scope.calls.len() < CALLS_MAX && scope.call_bytes + bytes <= CALL_BYTES_MAX {
            scope.call_bytes += bytes;
            let (capability, operation) = (capability.to_owned(), operation.to_owned());
            scope.calls.push(MockCall { capability, operation, params: params.clone() });
        }
        Some(answer)
    }

    /// The operations that are mocked, each once for each of its mocks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all().map(|(name, _)| name.as_str())
    }

    /// The calls that were answered since the innermost scope began, the first 10,000 of them.
    pub fn calls(&self) -> Vec<MockCall> {
        self.pushed.last().unwrap_or(&self.outermost).calls.clone()
    }

    /// Begins a scope.
    pub fn push(&mut self) {
        self.pushed.push(Scope::default());
    }

    /// Ends the innermost scope: its mocks and calls are forgotten.
    ///
    /// # Errors
    /// [`NoMockScope`].
    pub fn pop(&mut self) -> Result<(), NoMockScope> {
        self.pushed.pop().map(|_| ()).ok_or(NoMockScope)
    }

    /// Forgets all mocks, calls and scopes.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_mock_that_is_for_a_call_answers_it() {
        let mut mocks = Mocks::default();
        mocks.add("db.query".into(), HostMock::result(1));
        mocks.add("db.query".into(), HostMock::result(2).params(json!({ "table": "a" })));
        mocks.add("db.other".into(), HostMock::error("down"));
        let mut ask = |params: Value| mocks.answer("db", "query", &params);
        assert_eq!(ask(json!({ "table": "a", "limit": 3 })), Some(Ok(json!(2))));
        assert_eq!(ask(json!({ "table": "b" })), Some(Ok(json!(1))));
        assert_eq!(mocks.answer("db", "other", &json!({})), Some(Err("down".into())));
        assert_eq!(mocks.answer("db", "drop", &json!({})), None);
        let calls: Vec<_> = mocks.calls().into_iter().map(|call| call.operation).collect();
        assert_eq!(calls, ["query", "query", "other"]);
    }

    #[test]
    fn what_a_scope_adds_is_forgotten_with_it() {
        let mut mocks = Mocks::default();
        mocks.add("a.b".into(), HostMock::result(1));
        mocks.push();
        assert_eq!(mocks.answer("a", "b", &json!({})), Some(Ok(json!(1))), "of the outer scope");
        mocks.add("a.b".into(), HostMock::result(2));
        assert_eq!(mocks.answer("a", "b", &json!({})), Some(Ok(json!(2))));
        assert_eq!(mocks.calls().len(), 2);
        mocks.pop().unwrap();
        assert_eq!(mocks.answer("a", "b", &json!({})), Some(Ok(json!(1))));
        assert_eq!(mocks.calls().len(), 1);
        assert_eq!(mocks.pop(), Err(NoMockScope));
    }

    #[test]
    fn a_guest_cannot_fill_memory_with_calls() {
        let mut mocks = Mocks::default();
        mocks.add("a.b".into(), HostMock::result(1));
        let long = json!({ "x": "x".repeat(1 << 20) });
        for _ in 0..20 {
            mocks.answer("a", "b", &long);
        }
        assert_eq!(mocks.calls().len(), 15);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!("x"))];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::btree_map("[ab]", inner.clone(), 0..3)
                    .prop_map(|fields| json!(fields)),
                prop::collection::vec(inner, 0..3).prop_map(|items| json!(items)),
            ]
        })
    }

    /// All ways from the root to something that is no object, or an empty one, each with that.
    fn leaves(value: &Value, way: &str, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(fields) => {
                found.push((way.to_owned(), json!("object")));
                for (name, value) in fields {
                    leaves(value, &format!("{way}/{name}"), found);
                }
            }
            other => found.push((way.to_owned(), json!([other]))),
        }
    }

    proptest! {
        /// The naive model: whatever can be reached in the mock's parameters is in the call's.
        #[test]
        fn mocks_are_found_as_a_naive_model_finds_them(
            mocked in prop::collection::vec(prop::option::of(value()), 0..4),
            params in value(),
        ) {
            let mut mocks = Mocks::default();
            for (index, part) in mocked.iter().enumerate() {
                let mock = HostMock::result(index);
                let mock = if let Some(part) = part { mock.params(part.clone()) } else { mock };
                mocks.add("a.b".into(), mock);
            }
            let reached = |value: &Value| {
                let mut found = Vec::new();
                leaves(value, "", &mut found);
                found
            };
            let all = reached(&params);
            let expected = (0..mocked.len()).rev().find(|index| match &mocked[*index] {
                None => true,
                Some(part) => reached(part).iter().all(|leaf| all.contains(leaf)),
            });
            let found = mocks.answer("a", "b", &params);
            prop_assert_eq!(found, expected.map(|index| Ok(json!(index))));
        }
    }
}
