//! What holds whatever the order of things.
