// `foreshard export RUN --format …`: a stored run for other tools (docs/exports.md).

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "cli/options/newest_store.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/reports/query_csv.hpp"
#include "cli/terminal/child_process.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/suggest.hpp"
#include "core/base/units.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/step_title.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/chakra.hpp"
#include "traces/export/chrome_trace.hpp"
#include "traces/export/perfetto.hpp"
#include "traces/export/selection.hpp"
#include "traces/export/snapshot_pickle.hpp"
#include "traces/store/atomic_file.hpp"
#include "traces/store/query.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/store.hpp"
#include "viz/graph/dot.hpp"
#include "viz/graph/hang_graph.hpp"

namespace foreshard::cli {
namespace {

using traces::ByteSink;

struct ExportOptions {
  std::string run;
  std::string format;
  std::string output;
  std::string step;
  std::string table;
  std::string collapse;
  bool force = false;
};

/// dot 2.43 takes 3 s for 302 nodes (a Llama 8B by units) and did not end within a minute for 790.
constexpr std::size_t kMaxDrawnNodes = 600;

using Write = std::function<Result<void>(ByteSink&)>;

/// To the output file, which appears when it is whole and is packed where its name ends with .gz; to standard output
/// for "-" and where no file is named.
Result<int> write_out(const ExportOptions& options, Console& console, const Write& write) {
  if (options.output.empty() || options.output == "-") {
    ByteSink sink = ByteSink::to_stream(console.out);
    FORESHARD_TRY(write(sink));
    FORESHARD_TRY(sink.finish());
    return kDone;
  }
  auto file = traces::AtomicFile::create(options.output, options.force);
  FORESHARD_TRY(file);
  auto sink = ByteSink::to_file(file->temporary_path(), options.output.ends_with(".gz"));
  FORESHARD_TRY(sink);
  FORESHARD_TRY(write(*sink));
  const std::uint64_t bytes = sink->written();
  if (auto done = sink->finish(); !done) {
    Error error = done.error();
    error.where = options.output;
    return tl::unexpected(error);
  }
  FORESHARD_TRY(file->commit());
  console.note(fmt::format("wrote {} ({} unpacked)", options.output, format_bytes(bytes)));
  return kDone;
}

/// What a writer says of a run, with the run's file.
Result<void> of_run(const Result<void>& written, const ExportOptions& options, const Run& run) {
  return written ? written : tl::unexpected(in_run(written.error(), run.info.name, options.run));
}

Result<traces::ExportSelection> selected(const ExportOptions& options, const Run& run, bool last_by_default) {
  std::optional<std::int32_t> step;
  if (options.step.empty()) {
    if (last_by_default) step = traces::last_lanes_step(run);
  } else if (options.step != "all") {
    const auto number = parse_count(options.step);
    if (!number || *number > INT32_MAX)
      return fail(ErrorKind::usage, fmt::format("'{}' is no step", options.step), "--step", "give a number or all");
    step = static_cast<std::int32_t>(*number);
  }
  auto selection = traces::select_export(run, step);
  if (!selection) return tl::unexpected(in_run(selection.error(), run.info.name, options.run));
  return selection;
}

Result<int> export_timeline(const ExportOptions& options, const Run& run, Console& console) {
  const auto selection = selected(options, run, false);
  FORESHARD_TRY(selection);
  const bool perfetto = options.format == "perfetto";
  return write_out(options, console, [&](ByteSink& sink) -> Result<void> {
    if (perfetto)
      traces::write_perfetto(run, *selection, sink);
    else
      traces::write_chrome_trace(run, *selection, sink);
    return {};
  });
}

Result<int> export_chakra(const ExportOptions& options, const Run& run, Console& console) {
  const auto selection = selected(options, run, true);
  FORESHARD_TRY(selection);
  return write_out(options, console,
                   [&](ByteSink& sink) { return of_run(traces::write_chakra(run, *selection, sink), options, run); });
}

Result<int> export_snapshot(const ExportOptions& options, const Run& run, Console& console) {
  if (!options.step.empty() && options.step != "all")
    return fail(ErrorKind::usage, "a snapshot is the whole recording: a part of it could not be replayed", "--step",
                "leave --step out");
  return write_out(options, console,
                   [&](ByteSink& sink) { return of_run(traces::write_snapshot(run, sink), options, run); });
}

Result<int> draw_graph(const ExportOptions& options, const std::string& dot, Console& console) {
  const auto picture =
      filter_program({"dot", "-Tsvg"}, dot, "install Debian's or Ubuntu's package graphviz, or give --format dot");
  if (!picture) return tl::unexpected(in_file(picture.error(), options.output));
  FORESHARD_TRY(write_text(options.output, *picture, options.force));
  console.note("wrote " + options.output);
  return kDone;
}

Result<int> write_graph(const ExportOptions& options, const std::string& dot, Console& console) {
  if (options.format == "svg-graph") return draw_graph(options, dot, console);
  return write_out(options, console, [&](ByteSink& sink) -> Result<void> {
    sink.write(dot);
    return {};
  });
}

Result<int> export_graph(const ExportOptions& options, const Run& run, Console& console) {
  // A job that hangs has no step: what is asked is who waits for whom.
  if (options.step.empty() && options.collapse.empty())
    if (const auto hang = viz::hang_dot(run, run.info.name)) return write_graph(options, *hang, console);
  const auto selection = selected(options, run, true);
  FORESHARD_TRY(selection);
  const auto collapse = options.collapse == "none" ? viz::Collapse::none : viz::Collapse::unit;
  const auto graph = viz::dependency_graph(run, *selection, collapse);
  if (!graph) return tl::unexpected(in_run(graph.error(), run.info.name, options.run));
  if (options.format == "svg-graph" && graph->nodes.size() > kMaxDrawnNodes)
    return fail(ErrorKind::usage,
                fmt::format("the graph has {} nodes, and Graphviz takes minutes and more for those above {}",
                            graph->nodes.size(), kMaxDrawnNodes),
                options.run, "give --collapse unit or one --step, or write it with --format dot");
  std::string step = selection->lanes_step
                         ? ", " + step_title(run, selection->lanes_step->recording, selection->lanes_step->index)
                         : "";
  if (selection->lanes_step && never_ends(run, *selection->lanes_step)) step += ", which never ends";
  const std::string dot = viz::to_dot(run, *graph, run.info.name + step);
  return write_graph(options, dot, console);
}

/// Rows are written as they are read, so that a million are never in memory.
Result<void> write_table(traces::OpenedStore& store, std::string_view table, bool is_view, ByteSink& sink) {
  const traces::RowSink rows{[&](const std::vector<std::string>& names) { sink.write(csv_header(names)); },
                             [&](const std::vector<traces::QueryValue>& values) {
                               sink.write(csv_row(values));
                               return true;
                             }};
  const std::string sql = fmt::format("SELECT * FROM {}{}", table, is_view ? "" : " ORDER BY id");
  FORESHARD_TRY(store.rows(sql, {}, rows));
  return {};
}

Result<int> export_one_table(const ExportOptions& options, traces::OpenedStore& store, Console& console) {
  std::vector<std::string_view> names;
  for (const traces::Table& table : traces::tables()) names.push_back(table.name);
  const std::size_t tables = names.size();
  for (const traces::View& view : traces::views()) names.push_back(view.name);
  const auto found = std::find(names.begin(), names.end(), options.table);
  if (found == names.end())
    return fail(ErrorKind::usage, fmt::format("the store has no table or view '{}'", options.table), "--table",
                suggestion(options.table, names));
  const bool is_view = static_cast<std::size_t>(found - names.begin()) >= tables;
  return write_out(options, console, [&](ByteSink& sink) { return write_table(store, options.table, is_view, sink); });
}

/// A file a table, all or none: the folder takes its name when the last is whole.
Result<int> export_tables(const ExportOptions& options, traces::OpenedStore& store, Console& console) {
  std::vector<std::string> names;
  for (const traces::Table& table : traces::tables()) names.push_back(fmt::format("{}.csv", table.name));
  FORESHARD_TRY(holds_no_input(options.output, options.run));
  auto folder = traces::AtomicFolder::create(options.output, options.force, names);
  FORESHARD_TRY(folder);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto sink = ByteSink::to_file(folder->temporary_path() + "/" + names[i], false);
    FORESHARD_TRY(sink);
    FORESHARD_TRY(write_table(store, traces::tables()[i].name, false, *sink));
    bytes += sink->written();
    if (auto done = sink->finish(); !done)
      return fail(ErrorKind::input, fmt::format("{}: {}", names[i], done.error().what), options.output);
  }
  FORESHARD_TRY(folder->commit());
  console.note(fmt::format("wrote {} tables to {} ({})", names.size(), options.output, format_bytes(bytes)));
  return kDone;
}

void warn_of_end(const std::vector<std::string>& end, Console& console) {
  if (!end.empty()) console.warn("the job " + end.front());
}

/// As plan_end(), of a store whose run is not read.
Result<std::vector<std::string>> stored_end(traces::OpenedStore& store) {
  Run run;
  run.info.kind = RunKind::planned;  // of other kinds there is no such row
  const traces::RowSink rows{[](const std::vector<std::string>&) {},
                             [&](const std::vector<traces::QueryValue>& values) {
                               if (const auto* text = std::get_if<std::string>(&values.front()))
                                 run.results["ends"] = *text;
                               return false;
                             }};
  FORESHARD_TRY(store.rows("SELECT value FROM result WHERE key = 'ends'", {}, rows));
  return plan_end(run);
}

Result<int> export_csv(const ExportOptions& options, Console& console) {
  if (!options.step.empty() && options.step != "all")
    return fail(ErrorKind::usage, "tables are exported whole", "--step",
                "leave --step out, or ask for rows: foreshard query RUN SQL --csv");
  if (options.table.empty() && (options.output.empty() || options.output == "-"))
    return fail(ErrorKind::usage, "one file a table needs a folder", "-o", "give -o FOLDER, or one --table");
  auto store = traces::OpenedStore::open(options.run, {console.unverified});
  FORESHARD_TRY(store);
  const auto end = stored_end(*store);
  FORESHARD_TRY(end);
  warn_of_end(*end, console);
  return options.table.empty() ? export_tables(options, *store, console) : export_one_table(options, *store, console);
}

Result<int> run_export(ExportOptions& options, Console& console) {
  if (!options.table.empty() && options.format != "csv")
    return fail(ErrorKind::usage, "tables are exported as csv", "--table", "give --format csv");
  if (!options.collapse.empty() && options.format != "dot" && options.format != "svg-graph")
    return fail(ErrorKind::usage, "a graph's nodes are collapsed", "--collapse", "give --format dot or svg-graph");
  const bool to_file = !options.output.empty() && options.output != "-";
  if (!to_file && options.format == "svg-graph")
    return fail(ErrorKind::usage, "a picture needs a file", "-o", "give -o step.svg, or --format dot");
  const bool folder = options.format == "csv" && options.table.empty();
  if (to_file && !folder) FORESHARD_TRY(may_write(options.output, options.force));
  if (!to_file && options.output.empty() && options.format != "dot" && options.format != "csv")
    return fail(ErrorKind::usage, "the output needs a name", "-o", "give -o FILE, or -o - for standard output");
  auto named = store_or_newest(options.run, console);
  FORESHARD_TRY(named);
  options.run = std::move(*named);
  if (options.format == "csv") return export_csv(options, console);
  const auto run = traces::read_run(options.run, {console.unverified});
  FORESHARD_TRY(run);
  warn_of_end(plan_end(*run), console);
  if (options.format == "snapshot") return export_snapshot(options, *run, console);
  if (options.format == "chakra") return export_chakra(options, *run, console);
  if (options.format == "dot" || options.format == "svg-graph") return export_graph(options, *run, console);
  return export_timeline(options, *run, console);
}

}  // namespace

Action add_export(OptionSet& set) {
  auto options = std::make_shared<ExportOptions>();
  set.add_option("run", options->run, "a run store; default: the newest here").type_name("RUN");
  set.add_option("--format", options->format,
                 "perfetto: ui.perfetto.dev; chrome: Kineto's profiler trace; snapshot: PyTorch's memory_viz; dot, "
                 "svg-graph: what waits for what in a step; csv: the store's tables; chakra: execution trace")
      .required()
      .one_of({"perfetto", "chrome", "snapshot", "dot", "svg-graph", "csv", "chakra"})
      .type_name("FORMAT");
  set.add_option("-o,--output", options->output,
                 "the file, packed where its name ends with .gz; a folder for csv; - for standard output")
      .type_name("FILE")
      .writes(StandardOutput::as_well);
  set.add_option("--step", options->step,
                 "a step's number, or all; default: all, of dot, svg-graph and chakra the last")
      .type_name("N|all");
  set.add_option("--table", options->table, "csv: only this table or view").type_name("NAME");
  set.add_option("--collapse", options->collapse,
                 "dot, svg-graph: one node a unit and stream, or one an op; default unit")
      .one_of({"unit", "none"})
      .type_name("unit|none");
  set.add_flag("--force", options->force, "write over what is there");
  return [options](Console& console) { return run_export(*options, console); };
}

}  // namespace foreshard::cli
