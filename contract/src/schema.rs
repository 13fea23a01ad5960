//! STAND-IN
#![allow(missing_docs)]
use crate::change::ChangeKind;
use crate::json::Value;
pub enum Acceptance { Equal, Wider, Narrower, Incomparable, Undecidable }
pub struct Difference { pub kind: ChangeKind, pub pointer: String, pub before: Option<String>, pub after: Option<String>, pub witness: Option<Value>, pub rule: Option<&'static str> }
pub struct Comparison { pub acceptance: Acceptance, pub differences: Vec<Difference> }
pub fn compare_input(_: &Value, _: &Value) -> Comparison { Comparison { acceptance: Acceptance::Undecidable, differences: vec![] } }
pub fn compare_output(_: &Value, _: &Value) -> Comparison { Comparison { acceptance: Acceptance::Undecidable, differences: vec![] } }
