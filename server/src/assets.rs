//! The files that pages need, from the program itself: one stylesheet and one icon.
//!
//! Invariant: a file's name carries the hash of its bytes, so it can be cached for ever and a new program never shows
//! old styles.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

struct Asset {
    path: String,
    content_type: &'static str,
    bytes: &'static str,
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "css",
        "text/css; charset=utf-8",
        include_str!("../../templates/style.css"),
    )
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("svg", "image/svg+xml", include_str!("../../templates/icon.svg")));

impl Asset {
    fn new(extension: &str, content_type: &'static str, bytes: &'static str) -> Asset {
        let hash = hex(&Sha256::digest(bytes));
        Asset {
            path: format!("/assets/{}.{extension}", &hash[..16]),
            content_type,
            bytes,
        }
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

/// The stylesheet's path.
pub(crate) fn style_path() -> &'static str {
    &STYLE.path
}

/// The icon's path.
pub(crate) fn icon_path() -> &'static str {
    &ICON.path
}

/// `GET /assets/{file}`
pub(crate) async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    let asset = [&*STYLE, &*ICON]
        .into_iter()
        .find(|asset| asset.path.strip_prefix("/assets/") == Some(file.as_str()))
        .ok_or_else(Problem::no_page)?;
    let headers = [
        (CONTENT_TYPE, asset.content_type),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.bytes).into_response())
}
