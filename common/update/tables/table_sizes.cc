#include "common/update/tables/table_sizes.h"

#include <cstdint>

namespace tributary {
namespace {

// Adds a gauge with one number of each table.
void AddGauge(const TableEngine& tables, const char* name, const char* help,
              int64_t SparseTable::Size::*number, MetricsPage* page) {
  page->BeginGauge(name, help);
  for (const auto& table : tables.server_tables()) {
    page->Add(static_cast<double>(table->size().*number),
              {{"table", table->spec().name()}});
  }
}

}  // namespace

void AddTableSizes(const TableEngine& tables, ProcessStatistics* statistics) {
  for (const auto& table : tables.server_tables()) {
    const SparseTable::Size size = table->size();
    TableSize* const added = statistics->add_table();
    added->set_name(table->spec().name());
    added->set_rows(size.rows);
    added->set_bytes(size.bytes);
  }
}

void AddTableMetrics(const TableEngine& tables, MetricsPage* page) {
  using Size = SparseTable::Size;
  AddGauge(tables, "tributary_table_rows", "Rows of the table on this server.",
           &Size::rows, page);
  AddGauge(tables, "tributary_table_disk_rows",
           "Those of the rows that are in a file on this server's disk.",
           &Size::rows_on_disk, page);
  AddGauge(tables, "tributary_table_disk_bytes",
           "The size of this file, in bytes.", &Size::disk_bytes, page);
  AddGauge(tables, "tributary_table_bytes",
           "Memory for the rows of the table on this server, and their index, "
           "in bytes.",
           &Size::bytes, page);
}

}  // namespace tributary
