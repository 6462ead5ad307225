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
td:first-child, th:first-child { text-align: left; } td:not(:first-child), th { white-space: nowrap; }
#pick { overflow-x: auto; }
.right { text-align: right; } button { font: inherit; padding: .2rem .8rem; }
svg { width: 100%; height: 22rem; margin-top: 1rem; } circle { fill: #2f6fb0; opacity: .8; }
text { fill: currentColor; font-size: 12px; }
line { stroke: currentColor; opacity: .5; } #state { opacity: .8; }
)";

constexpr std::string_view kPickScript = R"(
const form = document.getElementById('pick');
form.addEventListener('submit', (event) => {
  event.preventDefault();
  location.href = '/compare/' + form.a.value + '/' + form.b.value + '/';
});
)";

// Polls the lines that are new and draws them. Texts get into the page as text alone.
constexpr std::string_view kScript = R"(
const rows = [];
let head = {}, next = 0, last = {}, finished = false;
const el = (id) => document.getElementById(id);
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);
function cell(row, text, tag = 'td') {
  const c = document.createElement(tag);
  c.textContent = text;
  row.append(c);
}
function take(line) {
  let value;
  try { value = JSON.parse(line); } catch { return; }
  if (value.progress) head = value;
  else if (value.row) rows.push(value.row);
  if (value.done !== undefined) last = value;
  if (value.finished) finished = true;
}
function draw() {
  el('title').textContent = head.title || document.title;
  const total = last.total || head.total;
  if (total) { el('bar').max = total; el('bar').value = last.done || 0; }
  const count = total ? ': ' + (last.done || 0) + ' of ' + total + ' ' + (head.unit || '') : '';
  el('state').textContent = (finished ? 'finished' : 'in progress') + count;
  const columns = head.columns || [];
  const table = el('table');
  table.replaceChildren();
  const titles = table.insertRow();
  for (const column of columns) cell(titles, column, 'th');
  const x = columns.indexOf('step_ms');
  const order = [...rows];
  if (x >= 0) order.sort((a, b) => (a[x] ?? Infinity) - (b[x] ?? Infinity));
  else order.reverse();
  for (const row of order.slice(0, 200)) {
    const line = table.insertRow();
    row.forEach((value, i) => {
      const size = value !== null && String(columns[i]).endsWith('_bytes');
      cell(line, value === null ? '' : size ? gib(value) + ' GiB' : value);
    });
  }
  plot(x, columns.indexOf('peak_reserved_bytes'));
}
function plot(x, y) {
  const svg = el('plot');
  svg.replaceChildren();
  const points = rows.filter((row) => row[x] > 0 && row[y] > 0);
  svg.style.display = points.length ? '' : 'none';
  if (!points.length) return;
  const make = (name, attributes, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text) e.textContent = text;
    svg.append(e);
    return e;
  };
  const maxX = Math.max(...points.map((p) => p[x])) * 1.05, maxY = Math.max(...points.map((p) => p[y])) * 1.05;
  make('line', { x1: 60, y1: 320, x2: 950, y2: 320 });
  make('line', { x1: 60, y1: 20, x2: 60, y2: 320 });
  make('text', { x: 950, y: 340, 'text-anchor': 'end' }, 'step time, 0 to ' + maxX.toFixed(1) + ' ms');
  make('text', { x: 64, y: 16 }, 'peak reserved, 0 to ' + gib(maxY) + ' GiB');
  for (const p of points) {
    const dot = make('circle', { cx: 60 + 890 * p[x] / maxX, cy: 320 - 300 * p[y] / maxY, r: 4 });
    const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    title.textContent = head.columns.map((c, i) => c + ': ' + p[i]).join('\n');
    dot.append(title);
  }
}
async function poll() {
  let wait = 1000;
  try {
    const answer = await fetch('progress?from=' + next);
    if (!answer.ok) throw new Error('the server answers ' + answer.status);
    const news = await answer.json();
    if (news.restarted) { rows.length = 0; head = {}; last = {}; finished = false; }
    next = news.next;
    news.lines.forEach(take);
    if (news.lines.length || news.restarted) draw();
    if (news.more) wait = 0;
  } catch (error) {
    el('state').textContent = 'not connected: ' + error.message;
  }
  setTimeout(poll, wait);
}
poll();
)";

std::string html(const std::string& title, const std::string& head, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; img-src data:; connect-src 'self'\">\n"
      "<title>{}</title>\n{}<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape(title), head, kStyle, body);
}

}  // namespace

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
      rows += fmt::format("<td colspan=\"{}\">{}</td>", columns.size() + (pick ? 2 : 0), escape(file.note));
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

std::string progress_page(const std::string& path) {
  return html(path, "",
              fmt::format("<h1 id=\"title\">{}</h1>\n<progress id=\"bar\"></progress>\n<p id=\"state\"></p>\n"
                          "<svg id=\"plot\" viewBox=\"0 0 1000 350\"></svg>\n<table id=\"table\"></table>\n"
                          "<script>{}</script>\n",
                          escape(path), kScript));
}

}  // namespace foreshard::viz
