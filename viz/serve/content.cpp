#include "viz/serve/content.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_io.hpp"
#include "traces/files/read_file.hpp"
#include "traces/store/store.hpp"
#include "viz/pack/column_codec.hpp"
#include "viz/scene/caption.hpp"

namespace foreshard::viz {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kPiece = "application/octet-stream";

std::string text_of(const Json& json) {
  return json_text(json);
}

Answer refuse(unsigned status, const std::string& what) {
  return {status, kJson, text_of({{"error", what}})};
}

/// What tells one file from the next under the same name: device, number, size, time.
using Identity = std::array<std::int64_t, 5>;

std::optional<Identity> identity(const std::string& path) {
  struct stat at {};
  if (::stat(path.c_str(), &at) != 0) return std::nullopt;
  return Identity{static_cast<std::int64_t>(at.st_dev), static_cast<std::int64_t>(at.st_ino), at.st_size,
                  at.st_mtim.tv_sec, at.st_mtim.tv_nsec};
}

/// Progress files are lines of JSON objects (docs/serve.md); stores are SQLite's. A pipe is neither: it would be waited
/// for.
bool is_progress(const std::string& path) {
  traces::ReadFile file(path, traces::FileKind::regular);
  std::array<char, 1> first{};
  return file.read(first) == 1 && first.front() == '{';
}

bool is_extra(const Reports& reports, std::string_view name) {
  const auto has = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return reports.extra && (has(reports.extras) || has(reports.compared_extras));
}

}  // namespace

struct Content::Shown {
  std::uint64_t generation = 0;
  Identity identity{};
  Run run;
  std::optional<Pack> pack;  ///< of `run`, which therefore stays where it is
  mutable std::mutex mutex;  ///< of what follows; held while a report is made
  mutable std::map<std::string, std::string, std::less<>> extras;

  /// One of the reports' pieces, made when it is first asked for.
  [[nodiscard]] std::optional<std::string> extra(const Reports& reports, std::string_view name,
                                                 const std::string& path) const {
    if (!is_extra(reports, name)) return std::nullopt;
    const std::lock_guard lock(mutex);
    auto found = extras.find(name);
    if (found == extras.end()) found = extras.emplace(name, compressed(reports.extra(name, run, path))).first;
    return found->second;
  }
};

struct Content::File {
  std::string path;
  std::mutex mutex;  ///< of what follows; held while a store is read
  std::uint64_t generation = 0;
  std::shared_ptr<const Shown> shown;
};

Content::Content(std::vector<std::string> paths, std::string theme, ContentLimits limits, Reports reports,
                 traces::OpenOptions open)
    : theme_(std::move(theme)), limits_(limits), reports_(std::move(reports)), open_(open) {
  for (std::string& path : paths) {
    files_.push_back(std::make_unique<File>());
    files_.back()->path = std::move(path);
  }
}

Content::~Content() = default;

Result<void> Content::check(bool may_be_missing) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::string& path = files_[i]->path;
    if (is_progress(path)) continue;
    if (!identity(path) && may_be_missing) continue;
    FORESHARD_TRY(shown(i, true));
  }
  return {};
}

Content::Store Content::shown(std::size_t at, bool fresh) {
  File& file = *files_[at];
  const std::lock_guard lock(file.mutex);
  const auto now = fresh ? identity(file.path) : std::nullopt;
  if (file.shown && (!now || file.shown->identity == *now)) return file.shown;
  auto next = std::make_shared<Shown>();
  next->generation = file.generation + 1;
  next->identity = now.value_or(Identity{});
  auto run = traces::read_run(file.path, open_);
  FORESHARD_TRY(run);
  next->run = std::move(*run);
  auto pack = Pack::make(next->run, {});
  if (!pack) {
    if (pack.error().where.empty()) pack.error().where = file.path;
    return tl::unexpected(pack.error());
  }
  next->pack = std::move(*pack);
  file.generation = next->generation;
  file.shown = next;
  return file.shown;
}

bool Content::is_report(const Asked& asked) const {
  const std::string_view name = asked.name;
  if (asked.what == Asked::What::piece) return is_extra(reports_, name);
  return asked.what == Asked::What::comparison_piece &&
         (name == "compare" ||
          ((name.starts_with("a/") || name.starts_with("b/")) && is_extra(reports_, name.substr(2))));
}

Answer Content::answer(const Asked& asked, std::string_view body) {
  if (asked.what == Asked::What::index) return index();
  if (asked.run >= files_.size() || asked.other >= files_.size())
    return refuse(404, "not found: no resource has this name");
  switch (asked.what) {
    case Asked::What::piece:
      return piece(asked.run, asked.generation, asked.name);
    case Asked::What::sql:
      return sql(asked.run, body);
    case Asked::What::progress:
      return progress(asked.run, asked.from);
    case Asked::What::comparison:
      return comparison(asked.run, asked.other);
    case Asked::What::comparison_piece:
      return comparison_piece(asked);
    default:
      return page(asked.run);
  }
}

Answer Content::index() {
  if (files_.size() == 1 && !is_progress(files_[0]->path)) return page(0);
  std::vector<ListedFile> files;
  for (std::size_t i = 0; i < files_.size(); ++i) files.push_back(listed(i));
  return {200, kHtml, list_page(reports_.columns, files, reports_.comparison != nullptr)};
}

std::string Content::home() const {
  return files_.size() > 1 ? "/" : "";
}

ListedFile Content::listed(std::size_t at) {
  ListedFile file{files_[at]->path, {}, false, {}};
  if (is_progress(file.path)) {
    file.note = "points of a sweep, or other progress";
  } else if (!identity(file.path)) {
    file.note = "not there yet";
  } else if (const auto store = shown(at, true); !store) {
    file.note = store.error().text();
  } else {
    file.is_run = true;
    if (reports_.row) file.cells = reports_.row((*store)->run);
  }
  return file;
}

Answer Content::page(std::size_t at) {
  const std::string& path = files_[at]->path;
  if (is_progress(path)) {
    std::vector<std::pair<std::string, std::string>> stores;
    for (std::size_t i = 0; i < files_.size(); ++i) stores.emplace_back(files_[i]->path, fmt::format("/run/{}/", i));
    return {200, kHtml, progress_page(path, home(), stores)};
  }
  if (!identity(path)) return {200, kHtml, waiting_page(path)};
  const auto store = shown(at, true);
  if (!store) return refuse(500, store.error().text());
  const std::string title = headline((*store)->run);
  const std::string data = fmt::format("/run/{}/{}/", at, (*store)->generation);
  return {200, kHtml, page_shell({title, theme_, {{"", title}}, data, reports_.extras, home()})};
}

Answer Content::comparison(std::size_t a, std::size_t b) {
  PageShell shell = comparison_shell(files_[a]->path, files_[b]->path, theme_);
  shell.extras = {"compare"};
  shell.home = home();
  std::array<std::uint64_t, 2> generations{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t at = i == 0 ? a : b;
    if (!reports_.comparison || is_progress(files_[at]->path)) return refuse(404, "not found: only runs are compared");
    const auto store = shown(at, true);
    if (!store) return refuse(500, store.error().text());
    generations[i] = (*store)->generation;
    for (const std::string& name : reports_.compared_extras) shell.extras.push_back(shell.runs[i].prefix + name);
  }
  shell.data = fmt::format("/compare/{}/{}/{}/{}/", a, b, generations[0], generations[1]);
  return {200, kHtml, page_shell(shell)};
}

tl::expected<std::shared_ptr<const Content::Shown>, Answer> Content::generation(std::size_t at, std::uint64_t wanted) {
  auto store = shown(at, false);
  if (!store) return tl::unexpected(refuse(404, store.error().text()));
  if ((*store)->generation != wanted) return tl::unexpected(refuse(404, "the run was written anew: reload the page"));
  return std::move(*store);
}

Answer Content::piece(std::size_t at, std::uint64_t wanted, std::string_view name) {
  const auto store = generation(at, wanted);
  if (!store) return store.error();
  auto bytes = (*store)->pack->piece(name);
  if (!bytes) bytes = (*store)->extra(reports_, name, files_[at]->path);
  if (!bytes) return refuse(404, "the run has no piece of that name");
  return {200, kPiece, std::move(*bytes)};
}

Answer Content::comparison_piece(const Asked& asked) {
  const std::string_view name = asked.name;
  if (name.starts_with("a/")) return piece(asked.run, asked.generation, name.substr(2));
  if (name.starts_with("b/")) return piece(asked.other, asked.other_generation, name.substr(2));
  if (name != "compare" || !reports_.comparison) return refuse(404, "a comparison has no piece of that name");
  const auto a = generation(asked.run, asked.generation);
  if (!a) return a.error();
  const auto b = generation(asked.other, asked.other_generation);
  if (!b) return b.error();
  const auto json = reports_.comparison((*a)->run, files_[asked.run]->path, (*b)->run, files_[asked.other]->path);
  if (!json) return refuse(500, json.error().text());
  return {200, kPiece, compressed(*json)};
}

Answer Content::sql(std::size_t at, std::string_view question) const {
  if (is_progress(files_[at]->path)) return refuse(400, "a progress file answers no SQL");
  const auto stopped = [this] { return stopped_.load(std::memory_order_relaxed); };
  auto answer = ask(files_[at]->path, question, limits_.question, stopped, open_);
  if (!answer) return refuse(400, answer.error().text());
  return {200, kJson, std::move(*answer)};
}

Answer Content::progress(std::size_t at, std::uint64_t from) const {
  const std::string& path = files_[at]->path;
  const auto size = identity(path);
  if (!size || !is_progress(path)) return refuse(404, "there is no progress file of that name");
  const auto bytes = static_cast<std::uint64_t>((*size)[2]);
  const bool restarted = from > bytes;
  if (restarted) from = 0;
  std::string text(std::min<std::uint64_t>(bytes - from, limits_.progress_bytes), '\0');
  traces::ReadFile file(path, traces::FileKind::regular);
  text.resize(file.seek(from) ? file.read(text).value_or(0) : 0);
  // The last line may be half written; one that fills the whole answer will never be whole.
  const std::size_t end = text.rfind('\n');
  if (end != std::string::npos) text.resize(end + 1);
  const bool hopeless = end == std::string::npos && text.size() == limits_.progress_bytes;
  const std::uint64_t next = from + (end != std::string::npos || hopeless ? text.size() : 0);
  Json lines = Json::array();
  for (std::size_t begin = 0; end != std::string::npos && begin < text.size();) {
    const std::size_t line = text.find('\n', begin);
    lines.push_back(text.substr(begin, line - begin));
    begin = line + 1;
  }
  return {200, kJson,
          text_of({{"next", next}, {"restarted", restarted}, {"more", next > from && next < bytes}, {"lines", lines}})};
}

}  // namespace foreshard::viz
