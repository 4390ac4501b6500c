// What the tables of a server report about their sizes.
#ifndef TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_SIZES_H_
#define TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_SIZES_H_

#include "common/metrics/metrics_page.h"
#include "common/update/tables/table_engine.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Adds the size of each table.
void AddTableSizes(const TableEngine& tables, ProcessStatistics* statistics);
// Adds the numbers of rows and bytes of each table.
void AddTableMetrics(const TableEngine& tables, MetricsPage* page);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_SIZES_H_
