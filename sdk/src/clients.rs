//! The configurations of MCP hosts (Claude, Cursor, VS Code, Zed, Codex, …): where they are, which servers they start, and
//! how an entry is put behind the gate and back.
//!
//! Invariant: nothing of a file changes but the entry that is wired; taking it back restores the file to the byte.
