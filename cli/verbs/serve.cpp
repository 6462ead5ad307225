// `foreshard serve RUN...`: the interactive page from a local server, for stores too big to embed and work in progress.

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/options/newest_store.hpp"
#include "cli/options/option_set.hpp"
#include "cli/reports/run_answer.hpp"
#include "cli/verbs/compare_pair.hpp"
#include "cli/verbs/page_output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/run/run_names.hpp"
#include "viz/serve/server.hpp"

namespace foreshard::cli {
namespace {

constexpr std::uint16_t kPort = 8347;

struct ServeOptions {
  std::vector<std::string> runs;
  std::optional<std::uint16_t> port;
  std::string theme = "auto";
  bool wait = false;
};

/// As the pages that view and compare write. Nothing is said on the console: several threads ask.
viz::Reports reports() {
  viz::Reports out;
  out.extras = page_extras();
  out.compared_extras = compared_page_extras();
  out.extra = [](std::string_view name, const Run& run, const std::string& path) {
    std::ostringstream unheard;
    Console console{unheard, unheard, true};
    return json_text(page_extra(name, run, path, {}, console));
  };
  out.comparison = [](const Run& a, const std::string& a_path, const Run& b,
                      const std::string& b_path) -> Result<std::string> {
    const auto report = compare_pair(a, a_path, b, b_path);
    FORESHARD_TRY(report);
    return json_text(compare_json(*report));
  };
  out.columns = {"kind", "machine", "step time", "±", "rate", "peak reserved", "of", "fits", "valid"};
  out.row = [](const Run& run) {
    const RunAnswer answer = run_answer(run);
    const auto size = [](const std::optional<Bytes>& bytes) { return bytes ? format_bytes(*bytes) : std::string(); };
    return std::vector<std::string>{
        std::string(name(run.info.kind)),
        run.info.machine.empty() ? run.info.gpu : run.info.machine,
        answer.step_ms ? fmt::format("{} ({})", milliseconds(*answer.step_ms), answer.step_source) : "",
        answer.uncertainty ? fmt::format("{:.0f} %", *answer.uncertainty * 100) : "",
        answer.rate ? fmt::format("{:.0f} {}", *answer.rate, answer.rate_unit) : "",
        size(answer.peak_reserved),
        size(answer.capacity),
        std::string(fits_word(answer)),
        answer.valid ? "yes" : "no"};
  };
  return out;
}

Result<int> serve(ServeOptions& options, Console& console) {
  if (options.runs.empty()) {
    auto newest = store_or_newest({}, console);
    FORESHARD_TRY(newest);
    options.runs.push_back(std::move(*newest));
  }
  auto content = std::make_unique<viz::Content>(options.runs, options.theme, viz::ContentLimits(), reports(),
                                                traces::OpenOptions{console.unverified});
  if (auto checked = content->check(options.wait); !checked) {
    if (!options.wait && checked.error().hint.empty()) checked.error().hint = "--wait waits for a run to be written";
    return tl::unexpected(checked.error());
  }
  viz::ServerOptions server_options;
  server_options.signals = true;
  server_options.port = options.port.value_or(kPort);
  auto server = std::make_unique<viz::Server>(*content, server_options);
  auto port = server->listen();
  if (!port && !options.port) {  // any other does as well
    server_options.port = 0;
    server = std::make_unique<viz::Server>(*content, server_options);
    port = server->listen();
  }
  FORESHARD_TRY(port);
  console.out << fmt::format("http://127.0.0.1:{}/", *port) << std::endl;  // a script waits for this line
  console.note("serving on the loopback address only; Ctrl-C ends it");
  server->run();
  if (server->busy()) {  // what is being made is not waited for, and has what it uses until the process is gone
    console.threads_left = true;
    static_cast<void>(server.release());
    static_cast<void>(content.release());
  }
  return kDone;
}

}  // namespace

Action add_serve(OptionSet& set) {
  auto options = std::make_shared<ServeOptions>();
  set.add_option("runs", options->runs,
                 "run stores, and files that sweep --progress writes; default: the newest store here")
      .type_name("RUN...");
  set.add_option("--port", options->port, "port of the loopback; 0: any free one; default: 8347, or any free one")
      .type_name("N");
  set.add_option("--theme", options->theme, "light or dark; default: the browser's")
      .one_of({"auto", "light", "dark"})
      .type_name("light|dark");
  set.add_flag("--wait", options->wait, "files may come later: their pages wait for them");
  return [options](Console& console) { return serve(*options, console); };
}

}  // namespace foreshard::cli
