//! Mocks: answers that tests set for operations.

use serde::Serialize;
use serde_json::Value;

use super::json::includes;

/// Limits of the calls that a scope keeps, as guests make them.
const CALLS_MAX: usize = 10_000;
const CALL_BYTES_MAX: usize = 16 << 20;

/// The answer of a mocked operation.
#[derive(Clone, PartialEq, Debug)]
pub struct HostMock {
    answer: Result<Value, String>,
    params: Option<Value>,
}

impl HostMock {
    /// A mock that returns `value`.
    pub fn result(value: impl Into<Value>) -> Self {
        Self { answer: Ok(value.into()), params: None }
    }

    /// A mock that fails with `message`.
    pub fn error(message: impl Into<String>) -> Self {
        Self { answer: Err(message.into()), params: None }
    }

    /// Restricts the mock to calls whose parameters include these fields, at any depth. Arrays and
    /// other values must be equal.
    #[must_use]
    pub fn params(mut self, params: impl Into<Value>) -> Self {
        self.params = Some(params.into());
        self
    }

    fn is_for(&self, params: &Value) -> bool {
        self.params.as_ref().is_none_or(|part| includes(params, part))
    }
}

/// A call that a mock answered.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MockCall {
    /// The capability.
    pub capability: String,
    /// The operation.
    pub operation: String,
    /// The parameters.
    pub params: Value,
}

/// A scope was popped, and none was pushed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no scope of mocks to pop: each pop needs a push before it")]
pub struct NoMockScope;

crate::base::readable::readable!(NoMockScope);

/// Mocks in nested scopes.
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

    /// In the order in which they were added.
    fn all(&self) -> impl DoubleEndedIterator<Item = &(String, HostMock)> {
        std::iter::once(&self.outermost).chain(&self.pushed).flat_map(|scope| &scope.mocks)
    }

    /// Adds a mock of operation `name` to the innermost scope.
    pub fn add(&mut self, name: String, mock: HostMock) {
        self.innermost().mocks.push((name, mock));
    }

    /// The latest mock of operation `name` that matches `params`.
    pub fn find(&self, name: &str, params: &Value) -> Option<&HostMock> {
        let is_for = |(of, mock): &&(String, HostMock)| of == name && mock.is_for(params);
        self.all().rev().find(is_for).map(|(_, mock)| mock)
    }

    /// Answers and notes a call by the latest matching mock; `None` without one.
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

    /// The mocked operations, repeated for each mock.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all().map(|(name, _)| name.as_str())
    }

    /// The calls answered since the innermost scope began, at most 10,000 of them.
    pub fn calls(&self) -> Vec<MockCall> {
        self.pushed.last().unwrap_or(&self.outermost).calls.clone()
    }

    /// Begins a scope.
    pub fn push(&mut self) {
        self.pushed.push(Scope::default());
    }

    /// Ends the innermost scope and drops its mocks and calls.
    ///
    /// # Errors
    /// [`NoMockScope`].
    pub fn pop(&mut self) -> Result<(), NoMockScope> {
        self.pushed.pop().map(|_| ()).ok_or(NoMockScope)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn latest_matching_mock_answers() {
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
    fn mocks_of_a_scope_end_with_it() {
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
    fn noted_mock_calls_are_bounded() {
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

    /// All paths from the root to a value that is not an object, or an empty object.
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
        /// The naive model: every leaf of the mock's parameters is in the call's.
        #[test]
        fn mock_matching_agrees_with_a_naive_model(
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
