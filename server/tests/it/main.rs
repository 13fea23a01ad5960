//! The server as its readers meet it, over a store with a few servers in it.

mod api;
mod client;
mod pages;
mod seed;
mod tidy;
