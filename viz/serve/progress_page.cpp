#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/json_io.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/serve/live_page.hpp"

namespace foreshard::viz {
namespace {

// Polls the lines that are new and draws them. Texts get into the page as text alone.
constexpr std::string_view kScript = R"(
const rows = [];
const stores = JSON.parse(el('stores').textContent);
let head = {}, next = 0, last = {}, finished = false, picked = null;
function el(id) { return document.getElementById(id); }
const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);
const column = (name) => (head.columns || []).indexOf(name);
const same = (a, b) => a && b && JSON.stringify(a) === JSON.stringify(b);
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
// What is plotted against memory: work a second where points do different work, else the step's time.
function speed() {
  const differs = ['batch', 'seq', 'accumulate'].some((name) => column(name) >= 0);
  const rate = column('tokens_per_s_per_gpu');
  if (differs && rate >= 0 && rows.some((row) => row[rate] > 0))
    return { at: rate, more: true, title: 'tokens a second and GPU' };
  return { at: column('step_ms'), more: false, title: 'step time, ms' };
}
const shown = (name, value) => {
  if (value === null || value === undefined) return '';
  if (String(name).endsWith('_bytes')) return gib(value) + ' GiB';
  return typeof value === 'number' ? String(Math.round(value * 100) / 100) : value;
};
const doubtful = (row) =>
  row[column('valid')] === 'no' || row[column('fits')] === 'may not fit' ||
  (head.limit_bytes && row[column('peak_reserved_bytes')] > head.limit_bytes);
function draw() {
  el('title').textContent = head.title || document.title;
  const total = last.total || head.total;
  if (total) { el('bar').max = total; el('bar').value = last.done || 0; }
  const count = total ? ': ' + (last.done || 0) + ' of ' + total + ' ' + (head.unit || '') : '';
  el('state').textContent = (finished ? 'finished' : 'in progress') + count;
  drawBest();
  const columns = head.columns || [];
  const table = el('table');
  table.replaceChildren();
  const titles = table.insertRow();
  for (const name of columns) cell(titles, name, 'th');
  const { at, more } = speed();
  const order = [...rows];
  const far = more ? -Infinity : Infinity;
  if (at >= 0) order.sort((a, b) => more ? (b[at] ?? far) - (a[at] ?? far) : (a[at] ?? far) - (b[at] ?? far));
  else order.reverse();
  for (const row of order.slice(0, 200)) {
    const line = table.insertRow();
    if (same(row, last.best)) line.className = 'best';
    if (same(row, picked)) line.classList.add('picked');
    row.forEach((value, i) => cell(line, shown(columns[i], value)));
  }
  plot(speed(), column('peak_reserved_bytes'));
}
function drawBest() {
  const best = el('best');
  best.replaceChildren();
  if (!last.best) return;
  const words = head.columns.map((name, i) => name + ' ' + shown(name, last.best[i]))
    .filter((word) => !/ $|^state |^fits fits$|^valid /.test(word));
  best.append('best: ' + words.join(', ') + '. ');
  // The sweep may have named the file from another folder.
  const file = (path) => path.slice(path.lastIndexOf('/') + 1);
  const other = Object.keys(stores).find((path) => head.store && file(path) === file(head.store));
  const address = head.store && (stores[head.store] || stores[other]);
  if (address) {
    const link = document.createElement('a');
    link.href = address;
    link.textContent = 'its run';
    best.append(link);
  } else if (head.store) best.append('Its run is in ' + head.store + '.');
}
function ticks(high, most) {
  const rough = high / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const out = [];
  for (let i = 0; i * step <= high * 1.0001; i++) out.push(i * step);
  return out;
}
function plot(x, y) {
  const svg = el('plot');
  svg.replaceChildren();
  const points = rows.filter((row) => row[x.at] > 0 && row[y] > 0);
  svg.style.display = points.length ? '' : 'none';
  if (!points.length) return;
  const make = (name, attributes, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text) e.textContent = text;
    svg.append(e);
    return e;
  };
  const [left, right, top, bottom] = [70, 980, 20, 330];
  const peak = Math.max(...points.map((p) => p[y]));
  const limit = head.limit_bytes && head.limit_bytes < peak * 2.5 ? head.limit_bytes : 0;
  const maxX = Math.max(...points.map((p) => p[x.at])) * 1.05, maxY = Math.max(peak, limit) / 2 ** 30 * 1.05;
  const atX = (value) => left + (right - left) * value / maxX, atY = (value) => bottom - (bottom - top) * value / maxY;
  for (const tick of ticks(maxX, 9)) {
    make('line', { x1: atX(tick), y1: top, x2: atX(tick), y2: bottom, class: 'grid' });
    make('text', { x: atX(tick), y: bottom + 16, 'text-anchor': 'middle' }, tick.toLocaleString('en-US'));
  }
  for (const tick of ticks(maxY, 6)) {
    make('line', { x1: left, y1: atY(tick), x2: right, y2: atY(tick), class: 'grid' });
    make('text', { x: left - 6, y: atY(tick) + 4, 'text-anchor': 'end' }, tick.toLocaleString('en-US') + ' GiB');
  }
  make('line', { x1: left, y1: bottom, x2: right, y2: bottom, class: 'axis' });
  make('line', { x1: left, y1: top, x2: left, y2: bottom, class: 'axis' });
  make('text', { x: right, y: bottom + 34, 'text-anchor': 'end' }, x.title);
  const far = head.limit_bytes && !limit ? ', limit ' + gib(head.limit_bytes) + ' GiB' : '';
  make('text', { x: left, y: 12 }, 'peak reserved' + far);
  if (limit) {
    const at = atY(limit / 2 ** 30);
    make('line', { x1: left, y1: at, x2: right, y2: at, class: 'limit' });
    make('text', { x: right, y: at - 5, 'text-anchor': 'end', class: 'limit' }, 'limit ' + gib(limit) + ' GiB');
  }
  for (const p of [...points].sort((a, b) => same(a, last.best) - same(b, last.best))) {
    const best = same(p, last.best);
    const dot = make('circle', {
      cx: atX(p[x.at]), cy: atY(p[y] / 2 ** 30), r: best || same(p, picked) ? 7 : 4,
      class: best ? 'best' : doubtful(p) ? 'doubtful' : '',
    });
    const title = document.createElementNS('http://www.w3.org/2000/svg', 'title');
    title.textContent = head.columns.map((c, i) => c + ': ' + shown(c, p[i])).join('\n');
    dot.append(title);
    dot.addEventListener('click', () => {
      picked = p;
      draw();
      document.querySelector('tr.picked')?.scrollIntoView({ block: 'center' });
    });
    if (best) make('text', { x: atX(p[x.at]) - 12, y: atY(p[y] / 2 ** 30) - 10, 'text-anchor': 'end' }, 'best');
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

/// JSON inside <script>: no "<" is left that could end the element.
std::string script_json(const nlohmann::ordered_json& json) {
  std::string out;
  for (const char c : json_text(json, -1, JsonCharacters::ascii)) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

}  // namespace

std::string progress_page(const std::string& path, const std::string& home,
                          const std::vector<std::pair<std::string, std::string>>& stores) {
  nlohmann::ordered_json addresses = nlohmann::ordered_json::object();
  for (const auto& [store, address] : stores) addresses[store] = address;
  const std::string back = home.empty() ? "" : fmt::format("<p><a href=\"{}\">‹ runs</a></p>\n", escape(home));
  return live_page_detail::html(
      path, "",
      fmt::format("{}<h1 id=\"title\">{}</h1>\n<progress id=\"bar\"></progress>\n<p id=\"state\"></p>\n"
                  "<p id=\"best\"></p>\n<svg id=\"plot\" viewBox=\"0 0 1000 370\"></svg>\n"
                  "<div class=\"overflow\"><table id=\"table\"></table></div>\n"
                  "<script type=\"application/json\" id=\"stores\">{}</script>\n<script>{}</script>\n",
                  back, escape(path), script_json(addresses), kScript));
}

}  // namespace foreshard::viz
