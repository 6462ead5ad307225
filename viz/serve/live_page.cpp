#include "viz/serve/live_page.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; } progress { width: 100%; } table { border-collapse: collapse; width: 100%; margin-top: 1rem; }
td, th { text-align: right; padding: .1rem .6rem; font-variant-numeric: tabular-nums; border-bottom: 1px solid #8884; }
td:first-child, th:first-child, td.note { text-align: left; }
td:first-child { overflow-wrap: anywhere; min-width: 9rem; } td:not(:first-child), th { white-space: nowrap; }
@media (max-width: 1100px) { td, td:not(:first-child), th { white-space: normal; padding: .1rem .3rem; } }
#pick { overflow-x: auto; }
.right { text-align: right; } button { font: inherit; padding: .2rem .8rem; }
svg { width: 100%; margin-top: 1rem; } circle { fill: #2f6fb0; stroke: #2f6fb0; stroke-width: 1.5; cursor: pointer; }
circle { pointer-events: all; } circle.doubtful { fill: none; } circle.best { fill: #009e73; stroke: #009e73; }
text { fill: currentColor; font-size: 12px; } .grid { stroke: currentColor; opacity: .15; }
.axis { stroke: currentColor; opacity: .6; } .limit { stroke: #d0021b; stroke-dasharray: 12 3 2 3; stroke-width: 1.5; }
text.limit { fill: #d0021b; stroke: none; } .overflow { overflow-x: auto; } tr.best { font-weight: 600; }
tr.picked { background: #2f6fb033; } #state { opacity: .8; }
)";

constexpr std::string_view kPickScript = R"(
const form = document.getElementById('pick');
form.addEventListener('submit', (event) => {
  event.preventDefault();
  location.href = '/compare/' + form.a.value + '/' + form.b.value + '/';
});
)";

}  // namespace

namespace live_page_detail {

std::string html(const std::string& title, const std::string& head, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; img-src data:; connect-src 'self'\">\n"
      "<title>{}</title>\n{}<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape(title), head, kStyle, body);
}

}  // namespace live_page_detail

using live_page_detail::html;

std::string list_page(const std::vector<std::string>& columns, const std::vector<ListedFile>& files, bool comparable) {
  const auto runs = std::count_if(files.begin(), files.end(), [](const ListedFile& file) { return file.is_run; });
  const bool pick = comparable && runs > 1;
  std::string head = "<th>run</th>";
  for (const std::string& column : columns) head += fmt::format("<th>{}</th>", escape(column));
  if (pick) head += "<th>A</th><th>B</th>";
  std::string rows;
  std::size_t run = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ListedFile& file = files[i];
    rows += fmt::format("<tr><td><a href=\"/run/{}/\">{}</a></td>", i, escape(file.path));
    for (const std::string& cell : file.cells) rows += fmt::format("<td>{}</td>", escape(cell));
    if (!file.is_run)
      rows +=
          fmt::format("<td class=\"note\" colspan=\"{}\">{}</td>", columns.size() + (pick ? 2 : 0), escape(file.note));
    if (file.is_run && pick) {
      for (const auto& [name, at] : {std::pair("a", 0U), std::pair("b", 1U)})
        rows += fmt::format("<td><input type=\"radio\" name=\"{0}\" value=\"{1}\" aria-label=\"{0}\"{2}></td>", name, i,
                            run == at ? " checked" : "");
      ++run;
    }
    rows += "</tr>\n";
  }
  std::string body =
      fmt::format("<h1>foreshard</h1>\n<form id=\"pick\"><table>\n<tr>{}</tr>\n{}</table>\n", head, rows);
  if (pick) body += "<p class=\"right\"><button>Compare A and B</button></p>\n";
  body += "</form>\n";
  if (pick) body += fmt::format("<script>{}</script>\n", kPickScript);
  return html("foreshard", "", body);
}

std::string waiting_page(const std::string& path) {
  return html(
      path, "<meta http-equiv=\"refresh\" content=\"2\">\n",
      fmt::format("<h1>{}</h1>\n<p>is not there yet. This page shows it as soon as it is.</p>\n", escape(path)));
}

}  // namespace foreshard::viz
