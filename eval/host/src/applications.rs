// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The benchmarks of Rodinia 3.1 and where a tree has them.

use std::path::{Path, PathBuf};

/// Names of the benchmarks in the paper's figures.
pub(crate) const ALL: [&str; 23] = [
    "b+tree",
    "backprop",
    "bfs",
    "cfd",
    "dwt2d",
    "gaussian",
    "heartwall",
    "hotspot",
    "hotspot3D",
    "huffman",
    "hybridsort",
    "kmeans",
    "lavaMD",
    "leukocyte",
    "lud",
    "mummergpu",
    "myocyte",
    "nn",
    "nw",
    "particlefilter",
    "pathfinder",
    "srad_v1",
    "streamcluster",
];

/// Where a benchmark lies in the tree: `cuda/NAME`, or a level deeper as `srad/srad_v1`.
pub(crate) fn folder(tree: &Path, name: &str) -> Option<PathBuf> {
    let cuda = tree.join("cuda");
    let family = name.split_once("_v").map_or(name, |(family, _)| family);
    [cuda.join(name), cuda.join(family).join(name)]
        .into_iter()
        .find(|folder| folder.is_dir())
}

/// The script with the benchmark's arguments, which each of Rodinia's folders has.
pub(crate) fn script(folder: &Path) -> Option<PathBuf> {
    ["run", "run.sh"]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}
