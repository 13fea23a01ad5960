//! STAND-IN
#![allow(missing_docs)]
use crate::definition::Definition;
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class { Unknown, FsRead, FsDelete }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence { Low, Medium, High }
#[derive(Debug, Clone)]
pub struct Capability { pub class: Class, pub confidence: Confidence, pub evidence: Vec<String> }
#[derive(Debug, Clone)]
pub struct Capabilities { pub rank: Class, pub classes: Vec<Capability>, pub destructive: bool, pub notes: Vec<String>, pub warnings: Vec<String> }
pub fn classify(_: &Definition) -> Capabilities { Capabilities { rank: Class::Unknown, classes: vec![], destructive: false, notes: vec![], warnings: vec![] } }
