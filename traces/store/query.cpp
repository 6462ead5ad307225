#include "traces/store/query.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

#include "traces/store/open.hpp"

namespace foreshard::traces {
namespace {

// Pragmas that describe the database and, without a value, change nothing (sqlite.org/pragma.html).
constexpr std::array<std::string_view, 8> kDescribing{"table_info", "table_xinfo", "table_list",  "index_list",
                                                      "index_info", "index_xinfo", "quick_check", "integrity_check"};
constexpr std::array<std::string_view, 4> kReadable{"application_id", "user_version", "page_count", "page_size"};

// What SQLite itself has that computes values from values (sqlite.org/lang_corefunc.html and its siblings), in order.
// What reaches beyond them stays out: load_extension, fts3_tokenizer (takes and gives addresses), match, and whatever a
// distribution's SQLite has more.
constexpr std::string_view kFunctions =
    " -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh "
    "count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp "
    "first_value floor format glob group_concat hex ifnull iif instr json json_array json_array_length json_each "
    "json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch "
    "json_quote json_remove json_replace json_set json_tree json_type json_valid julianday lag last_value lead "
    "length like likelihood likely ln log log10 log2 lower ltrim max min mod nth_value ntile nullif octet_length "
    "percent_rank pi pow power printf quote radians random randomblob rank replace round row_number rtrim sign "
    "sin sinh soundex sqlite_compileoption_get sqlite_compileoption_used sqlite_source_id sqlite_version sqrt "
    "strftime string_agg substr substring subtype sum tan tanh time timediff total trim trunc typeof unhex "
    "unicode unistr unistr_quote unixepoch unlikely upper zeroblob ";

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string_view text(const char* raw) {
  return raw == nullptr ? std::string_view() : std::string_view(raw);
}

/// SQLite's names of functions are ASCII, in any case.
std::string lower(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// What SQL may do, asked by SQLite while it compiles. `refused` gets the first thing that it may not.
int authorize(void* refused, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      if (kFunctions.find(fmt::format(" {} ", lower(text(second)))) != std::string_view::npos) return SQLITE_OK;
      break;
    case SQLITE_PRAGMA:
      if (contains(kDescribing, text(first))) return SQLITE_OK;
      if (contains(kReadable, text(first)) && second == nullptr) return SQLITE_OK;
      break;
    default:
      break;
  }
  auto& what = *static_cast<std::string*>(refused);
  if (what.empty()) {
    const bool attach = action == SQLITE_ATTACH || action == SQLITE_DETACH;
    what = action == SQLITE_PRAGMA     ? fmt::format("PRAGMA {}", text(first))
           : attach                    ? "ATTACH and DETACH"
           : action == SQLITE_FUNCTION ? fmt::format("the function {}", text(second))
                                       : "a statement that changes something";
  }
  return SQLITE_DENY;
}

constexpr int kStepsBetweenAsking = 4'000;  // of SQLite's virtual machine: well below a millisecond

void limit(sqlite3* connection, const QueryLimits& limits) {
  // Far more than a question to a store needs (sqlite.org/limits.html), far less than what keeps a parser busy.
  sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(connection, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(connection, SQLITE_LIMIT_COLUMN, 500);
  sqlite3_limit(connection, SQLITE_LIMIT_EXPR_DEPTH, 200);
  sqlite3_limit(connection, SQLITE_LIMIT_COMPOUND_SELECT, 100);
  sqlite3_limit(connection, SQLITE_LIMIT_VDBE_OP, 1 << 20);
  sqlite3_limit(connection, SQLITE_LIMIT_FUNCTION_ARG, 100);
  sqlite3_limit(connection, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
  if (limits.bytes < static_cast<std::size_t>(sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, -1)))
    sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, static_cast<int>(limits.bytes));
  if (limits.heap > 0) sqlite3_hard_heap_limit64(limits.heap);
  if (!limits.stop) return;
  const auto ask = [](void* stop) { return (*static_cast<const std::function<bool()>*>(stop))() ? 1 : 0; };
  sqlite3_progress_handler(connection, kStepsBetweenAsking, ask, const_cast<std::function<bool()>*>(&limits.stop));
}

/// Of the present row once it is copied.
std::size_t row_size(const Statement& statement) {
  std::size_t out = 0;
  for (int i = 0; i < statement.column_count(); ++i) {
    const int type = statement.type(i);
    out += sizeof(QueryValue) + (type == SQLITE_TEXT || type == SQLITE_BLOB ? statement.text(i).size() : 0);
  }
  return out;
}

QueryValue value(const Statement& statement, int at) {
  switch (statement.type(at)) {
    case SQLITE_INTEGER:
      return statement.integer(at);
    case SQLITE_FLOAT:
      return statement.real(at);
    case SQLITE_NULL:
      return std::monostate();
    default:
      return std::string(statement.text(at));
  }
}

/// Compiled, and seen to be a question. `refused` lives as long as the connection. Errors: usage.
Result<Statement> prepare_question(Connection& connection, std::string_view sql, std::string& refused) {
  sqlite3_set_authorizer(connection.handle(), &authorize, &refused);
  Result<Statement> statement = connection.prepare(sql);
  // VACUUM asks the authorizer only once it runs.
  if (refused.empty() && statement && sqlite3_stmt_readonly(statement->handle()) == 0)
    refused = "a statement that changes something";
  if (!refused.empty())
    return fail(ErrorKind::usage, fmt::format("a query can only read: {} is refused", refused), connection.path(),
                "give a SELECT; docs/trace_schema.md lists the tables and views");
  if (!statement) {
    Error error = statement.error();
    error.kind = ErrorKind::usage;
    if (error.hint.empty()) error.hint = "docs/trace_schema.md lists the tables and views";
    return tl::unexpected(error);
  }
  return statement;
}

/// What fails while rows are made is the question's fault, but for a store that cannot be read.
Error of_question(const Connection& connection, Error error) {
  switch (sqlite3_errcode(connection.handle()) & 0xff) {
    case SQLITE_ERROR:     // an overflow, an argument that a function does not take
    case SQLITE_TOOBIG:    // a value longer than may be
    case SQLITE_MISMATCH:  // a value of another type
    case SQLITE_RANGE:
      error.kind = ErrorKind::usage;
      break;
    default:
      break;
  }
  return error;
}

}  // namespace

struct OpenedStore::State {
  Connection connection;
  std::string refused = {};  ///< of the question at hand
};

OpenedStore::OpenedStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
OpenedStore::OpenedStore(OpenedStore&&) noexcept = default;
OpenedStore::~OpenedStore() = default;

Result<OpenedStore> OpenedStore::open(const std::string& path, OpenOptions options) {
  Result<Connection> connection = open_store(path, options);
  FORESHARD_TRY(connection);
  return OpenedStore(std::make_unique<State>(State{std::move(*connection)}));
}

Result<bool> OpenedStore::rows(std::string_view sql, const QueryLimits& limits, const RowSink& sink) {
  Connection& connection = state_->connection;
  limit(connection.handle(), limits);
  state_->refused.clear();
  Result<Statement> statement = prepare_question(connection, sql, state_->refused);
  FORESHARD_TRY(statement);
  std::vector<std::string> names;
  for (int i = 0; i < statement->column_count(); ++i) names.push_back(statement->column_name(i));
  sink.columns(names);
  std::size_t rows = 0, bytes = 0;
  std::vector<QueryValue> values;
  for (;;) {
    const Result<bool> row = statement->step();
    if (!row && limits.stop && limits.stop())
      return fail(ErrorKind::usage, "the query took too long and was ended", connection.path(),
                  "narrow the query, or use foreshard query");
    if (!row) return tl::unexpected(of_question(connection, row.error()));
    if (!*row) return false;
    // Before it is copied: one row of many large values would be more than any number of small ones.
    bytes += row_size(*statement);
    if (rows++ >= limits.rows || bytes > limits.bytes) return true;
    values.clear();
    for (int i = 0; i < statement->column_count(); ++i) values.push_back(value(*statement, i));
    if (!sink.row(values)) return true;
  }
}

Result<bool> query_rows(const std::string& path, std::string_view sql, const QueryLimits& limits, const RowSink& sink,
                        OpenOptions options) {
  Result<OpenedStore> store = OpenedStore::open(path, options);
  FORESHARD_TRY(store);
  return store->rows(sql, limits, sink);
}

Result<QueryResult> query(const std::string& path, std::string_view sql, const QueryLimits& limits,
                          OpenOptions options) {
  QueryResult out;
  const RowSink sink{[&](const std::vector<std::string>& names) { out.columns = names; },
                     [&](const std::vector<QueryValue>& values) {
                       out.rows.push_back(values);
                       return true;
                     }};
  const Result<bool> truncated = query_rows(path, sql, limits, sink, options);
  FORESHARD_TRY(truncated);
  out.truncated = *truncated;
  return out;
}

}  // namespace foreshard::traces
