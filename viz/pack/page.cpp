#include "viz/pack/page.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/base/check.hpp"
#include "core/base/json_io.hpp"
#include "viz/pack/column_codec.hpp"
#include "viz/pack/page_template.hpp"
#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {
namespace {

constexpr std::string_view kTitle = "<!--TITLE-->";
constexpr std::string_view kData = "<!--DATA-->";

/// JSON inside <script>: no "<" is left that could end the element or open a comment.
std::string script_json(const nlohmann::ordered_json& json) {
  std::string out;
  for (const char c : json_text(json, -1, JsonCharacters::ascii))
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

void add_piece(std::string& out, std::string_view name, std::string_view bytes) {
  out += fmt::format("<script type=\"text/plain\" id=\"data:{}\">{}</script>\n", name, base64(bytes));
}

std::string with_data(const PageShell& shell, std::string_view pieces) {
  nlohmann::ordered_json config{
      {"theme", shell.theme}, {"title", shell.title}, {"runs", nlohmann::ordered_json::array()}};
  for (const PageRun& run : shell.runs) config["runs"].push_back({{"prefix", run.prefix}, {"label", run.label}});
  if (shell.one_at_a_time) config["one_at_a_time"] = true;
  config["extras"] = shell.extras;
  if (!shell.data.empty()) config["data"] = shell.data;
  if (!shell.home.empty()) config["home"] = shell.home;

  const std::string_view html = page_template();
  const std::size_t title = html.find(kTitle), data = html.find(kData);
  FORESHARD_CHECK(title < data && data != std::string_view::npos, "the page has a place for its title and its data");
  std::string out(html.substr(0, title));
  out += escape(shell.title);
  out += html.substr(title + kTitle.size(), data - title - kTitle.size());
  out += fmt::format("<script type=\"application/json\" id=\"config\">{}</script>\n", script_json(config));
  out += pieces;
  out += html.substr(data + kData.size());
  return out;
}

}  // namespace

PageShell comparison_shell(const std::string& a_path, const std::string& b_path, const std::string& theme) {
  const auto file = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const bool alike = file(a_path) == file(b_path);
  const std::string a = alike ? a_path : file(a_path), b = alike ? b_path : file(b_path);
  return {fmt::format("{} and {}", a, b), theme, {{"a/", "A: " + a}, {"b/", "B: " + b}}};
}

std::string page_shell(const PageShell& shell) {
  return with_data(shell, {});
}

std::string page_file(const PageShell& shell, const std::vector<Pack>& packs, const std::vector<PageExtra>& extras) {
  FORESHARD_CHECK(packs.size() == shell.runs.size(), "each run of a page has its pack");
  std::string pieces;
  for (std::size_t i = 0; i < packs.size(); ++i)
    for (const std::string& name : packs[i].names())
      add_piece(pieces, shell.runs[i].prefix + name, packs[i].piece(name).value_or(std::string()));
  for (const PageExtra& extra : extras) add_piece(pieces, extra.name, compressed(extra.json));
  PageShell whole = shell;
  for (const PageExtra& extra : extras) whole.extras.push_back(extra.name);
  return with_data(whole, pieces);
}

}  // namespace foreshard::viz
