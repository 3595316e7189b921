// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The page of the exporter.

use super::sampler::Latest;
use super::text::Format;
use crate::http::{Answer, Request, Site};

/// Where the page is.
pub const PATH: &str = "/metrics";

impl Site for Latest {
    const BODY_MAX: usize = 1 << 10;

    fn answer(&self, request: &Request) -> Answer {
        if request.path != PATH {
            return Answer::refused("404 Not Found");
        }
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            return Answer {
                headers: "Allow: GET, HEAD\r\n",
                ..Answer::refused("405 Method Not Allowed")
            };
        }
        let format = Format::accepted(&request.accept);
        let Ok(body) = self.text(format) else {
            return Answer::refused("500 Internal Server Error");
        };
        Answer {
            content_type: format.content_type(),
            body,
            head_only: request.method == "HEAD",
            ..Answer::refused("200 OK")
        }
    }
}
