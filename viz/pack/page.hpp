// The interactive page: one HTML file with its script, its style and its data; or the same page for a server.
//
// Who: cli's view and compare embed; a local server hands out shell() and the pieces. Pure: text out. Determinism:
// the same runs and options give the same bytes. viz/page holds the page's sources; its built form lies in
// viz/page/dist/page.html and is part of this library.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "viz/pack/pack.hpp"

namespace foreshard::viz {

/// One run of a page. Its pieces' names begin with `prefix`.
struct PageRun {
  std::string prefix;  ///< "" for the only run, "a/" and "b/" for two
  std::string label;   ///< shown where there are several: "A: before.db"
};

/// A piece that does not come from a pack: "explain" (docs/view.md), "a/explain", "compare". `json` is one value.
struct PageExtra {
  std::string name;
  std::string json;
};

struct PageShell {
  std::string title;
  std::string theme = "auto";  ///< "auto" (the browser's), "light" or "dark"
  std::vector<PageRun> runs;
  std::string data = {};  ///< address below which a server has the pieces ("/data/"); empty: they are in the file
  std::vector<std::string> extras = {};  ///< names of the pieces that no pack has; page_file() takes those it is given
  std::string home = {};                 ///< address of the list that a server has beside the page; empty: none
  bool one_at_a_time = false;            ///< the first of `runs` is shown, another in its place when asked for
};

/// The shell of a page of two runs, of their files' names: without their folders, unless those tell them apart. Their
/// prefixes are "a/" and "b/".
[[nodiscard]] PageShell comparison_shell(const std::string& a_path, const std::string& b_path,
                                         const std::string& theme);

/// The page without data. Text of any sort is safe in it.
[[nodiscard]] std::string page_shell(const PageShell& shell);

/// The page with everything in it: one pack for each run of the shell.
[[nodiscard]] std::string page_file(const PageShell& shell, const std::vector<Pack>& packs,
                                    const std::vector<PageExtra>& extras);

}  // namespace foreshard::viz
