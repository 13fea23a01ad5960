//! STAND-IN
#![allow(missing_docs)]
use crate::definition::Definition;
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionType { Unknown, Delete, Execute, Admin, Payment, Auth, Send, Write, Update, Search, List, Read }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blast { Low, Medium, High }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideEffect { None, LocalWrite, Outbound, Destructive }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reversibility { Reversible, HardToReverse, Irreversible }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Egress { None, Internal, External }
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling { Discovery, Reversible, NeedsApproval, NeverUnattended }
#[derive(Debug, Clone)]
pub struct Action { pub types: Vec<ActionType>, pub effective: ActionType, pub blast: Blast, pub side_effect: SideEffect, pub reversibility: Reversibility, pub egress: Egress, pub ceiling: Ceiling }
pub fn classify(_: &Definition) -> Action { Action { types: vec![ActionType::Read], effective: ActionType::Read, blast: Blast::Low, side_effect: SideEffect::None, reversibility: Reversibility::Reversible, egress: Egress::None, ceiling: Ceiling::Discovery } }
