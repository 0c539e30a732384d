//! Generator `tpcc`: New-Order and Payment transactions of a database in memory. Random keys lead through hash
//! indexes, or a list of last names, to rows that are read or changed. New orders, order lines and payments are
//! inserted behind the last row of their table. Customers and stock grow with the key `warehouses`.

use super::{
    Describe,
    rows::{Index, Rows},
};
use crate::{
    algorithm::{Algorithm, Sharing},
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed::{below, mix, nth},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TPC-C's New-Order and Payment on tables in memory with hash indexes.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TpccDesc {
    /// Warehouses; each takes 63 MB. Default 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    warehouses: u64,
    /// Transactions. Default 10k.
    #[schemars(range(min = 0, max = 1u64 << 32))]
    transactions: u64,
    /// How many of 100 transactions are payments. Default 50, as in DBx1000; of TPC-C's own mix of these two it is 49.
    #[schemars(range(min = 0, max = 100))]
    payments: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for TpccDesc {
    fn default() -> Self {
        Self { warehouses: 1, transactions: 10_000, payments: 50, seed: 1 }
    }
}

impl Describe for TpccDesc {
    const NAME: &str = "tpcc";
    type Algorithm = Tpcc;

    fn algorithm(&self) -> Result<Tpcc, String> {
        Ok(Tpcc::new(self.warehouses, self.transactions, self.payments, self.seed))
    }
}

/// The two transactions of TPC-C (standard specification, revision 5.11) that DBx1000 has, with the insertions of the
/// specification. DBx1000: Yu et al., "Staring into the abyss: An evaluation of concurrency control with one thousand
/// cores", VLDB 2014; `tpcc_txn.cpp`. Rows are as long as their columns (clause 1.3), populations as clause 1.2 says.
///
/// Three customers of a district share each last name; the specification gives the first thousand customers one each
/// and the rest random ones. New rows go behind the last, so rows of transactions follow in the order they were made.
#[derive(Clone)]
pub struct Tpcc {
    layout: Layout,
    warehouse: Rows,
    district: Rows,
    customer: Rows,
    item: Rows,
    stock: Rows,
    orders: Rows,
    new_order: Rows,
    order_line: Rows,
    history: Rows,
    indexes: Indexes,
    warehouses: u64,
    transactions: u64,
    payments: u64,
    key: u64,
    at: u64,
    /// Random numbers drawn by this transaction.
    drawn: u64,
    /// Rows inserted so far, which tell where the next ones go: orders, lines of orders and payments.
    pub ordered: u64,
    /// Lines of orders.
    pub lines: u64,
    /// Payments.
    pub paid: u64,
}

#[derive(Clone)]
struct Indexes {
    warehouse: Index,
    district: Index,
    customer: Index,
    item: Index,
    stock: Index,
    /// The first customer of a district's last name, and the next one of each customer's.
    names: Array<u64>,
    same_name: Array<u64>,
}

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3_000;
const ITEMS: u64 = 100_000;
const NAMES: u64 = 1_000;
const LINES_MAX: u64 = 15;
// Bytes of rows, and where in them lie the columns that a transaction changes (clause 1.3, columns in order).
const WAREHOUSE_BYTES: u64 = 89;
const WAREHOUSE_YTD: u64 = 80;
const DISTRICT_BYTES: u64 = 95;
const DISTRICT_YTD: u64 = 80;
const DISTRICT_NEXT: u64 = 88;
const CUSTOMER_BYTES: u64 = 655;
const CUSTOMER_BALANCE: u64 = 128;
const CUSTOMER_DATA: u64 = 152;
const ITEM_BYTES: u64 = 82;
const STOCK_BYTES: u64 = 306;
const STOCK_QUANTITY: u64 = 8;
const STOCK_COUNTS: u64 = 256;
const ORDER_BYTES: u64 = 24;
const NEW_ORDER_BYTES: u64 = 8;
const LINE_BYTES: u64 = 54;
const HISTORY_BYTES: u64 = 46;
/// NURand's constants (clause 2.1.6): of customers, of last names, of items.
const NURAND: [u64; 3] = [1023, 255, 8191];

impl Tpcc {
    /// `warehouses`, and `transactions` of which `payments` in 100 are payments.
    pub fn new(warehouses: u64, transactions: u64, payments: u64, seed: u64) -> Self {
        let mut layout = Layout::default();
        let l = &mut layout;
        let (districts, customers) = (warehouses * DISTRICTS, warehouses * DISTRICTS * CUSTOMERS);
        Self {
            warehouse: Rows::new(l, warehouses, WAREHOUSE_BYTES),
            district: Rows::new(l, districts, DISTRICT_BYTES),
            customer: Rows::new(l, customers, CUSTOMER_BYTES),
            item: Rows::new(l, ITEMS, ITEM_BYTES),
            stock: Rows::new(l, warehouses * ITEMS, STOCK_BYTES),
            orders: Rows::new(l, transactions.max(1), ORDER_BYTES),
            new_order: Rows::new(l, transactions.max(1), NEW_ORDER_BYTES),
            order_line: Rows::new(l, transactions.max(1) * LINES_MAX, LINE_BYTES),
            history: Rows::new(l, transactions.max(1), HISTORY_BYTES),
            indexes: Indexes {
                warehouse: Index::new(l, warehouses),
                district: Index::new(l, districts),
                customer: Index::new(l, customers),
                item: Index::new(l, ITEMS),
                stock: Index::new(l, warehouses * ITEMS),
                names: l.array(districts * NAMES),
                same_name: l.array(customers),
            },
            layout,
            warehouses,
            transactions,
            payments,
            key: mix(seed),
            at: 0,
            drawn: 0,
            ordered: 0,
            lines: 0,
            paid: 0,
        }
    }

    /// A number below `bound`.
    #[inline(always)]
    fn draw(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        below(nth(self.key ^ mix(self.at), self.drawn), bound)
    }

    /// NURand of clause 2.1.6, below `bound`; its constant C is 0.
    #[inline(always)]
    fn uneven(&mut self, of: u64, bound: u64) -> u64 {
        (self.draw(of + 1) | self.draw(bound)) % bound
    }

    fn new_order(&mut self, m: &mut impl Memory) {
        m.block(1, 150);
        let warehouse = self.draw(self.warehouses);
        let district = warehouse * DISTRICTS + self.draw(DISTRICTS);
        let customer = district * CUSTOMERS + self.uneven(NURAND[0], CUSTOMERS);
        let row = self.indexes.warehouse.find(m, warehouse);
        self.warehouse.get(m, row, WAREHOUSE_YTD - 8);
        let row = self.indexes.customer.find(m, customer);
        self.customer.read(m, row, 0, CUSTOMER_BALANCE);
        let row = self.indexes.district.find(m, district);
        self.district.change(m, row, DISTRICT_NEXT);
        m.block(2, 60);
        self.orders.insert(m, self.ordered);
        self.new_order.insert(m, self.ordered);
        self.ordered += 1;
        for _ in 0..5 + self.draw(LINES_MAX - 4) {
            m.block(3, 110);
            let item = self.uneven(NURAND[2], ITEMS);
            // One line of a hundred is supplied by another warehouse (clause 2.4.1.5).
            let supplier = if self.draw(100) == 0 { self.draw(self.warehouses) } else { warehouse };
            let row = self.indexes.item.find(m, item);
            self.item.read(m, row, 0, ITEM_BYTES);
            let row = self.indexes.stock.find(m, supplier * ITEMS + item);
            self.stock.change(m, row, STOCK_QUANTITY);
            // What this district's order is told of the stock, and its data.
            self.stock.read(m, row, 16, STOCK_COUNTS);
            self.stock.change(m, row, STOCK_COUNTS);
            self.stock.change(m, row, STOCK_COUNTS + 8);
            m.block(4, 50);
            self.order_line.insert(m, self.lines);
            self.lines += 1;
        }
    }

    fn payment(&mut self, m: &mut impl Memory) {
        m.block(5, 160);
        let warehouse = self.draw(self.warehouses);
        let district = warehouse * DISTRICTS + self.draw(DISTRICTS);
        let row = self.indexes.warehouse.find(m, warehouse);
        self.warehouse.change(m, row, WAREHOUSE_YTD);
        self.warehouse.read(m, row, 0, WAREHOUSE_YTD);
        let row = self.indexes.district.find(m, district);
        self.district.change(m, row, DISTRICT_YTD);
        self.district.read(m, row, 0, DISTRICT_YTD);
        // 15 of a hundred pay at another warehouse, 60 give their last name (clause 2.5.1.2).
        let home =
            if self.draw(100) < 15 { self.draw(self.warehouses) * DISTRICTS + self.draw(DISTRICTS) } else { district };
        m.block(6, 60);
        let customer = if self.draw(100) < 60 {
            let name = self.uneven(NURAND[1], NAMES);
            let first = home * CUSTOMERS + name;
            // The middle one of those who have it.
            let first = m.load(self.indexes.names, home * NAMES + name, || first);
            let middle = m.load(self.indexes.same_name, first, || first + NAMES);
            m.load(self.indexes.same_name, middle, || middle + NAMES);
            middle
        } else {
            let customer = home * CUSTOMERS + self.uneven(NURAND[0], CUSTOMERS);
            self.indexes.customer.find(m, customer)
        };
        self.customer.change(m, customer, CUSTOMER_BALANCE);
        self.customer.change(m, customer, CUSTOMER_BALANCE + 8);
        self.customer.change(m, customer, CUSTOMER_BALANCE + 16);
        m.block(7, 80);
        // One of ten has bad credit, and its data are written anew.
        if self.draw(10) == 0 {
            self.customer.read(m, customer, CUSTOMER_DATA, CUSTOMER_BYTES);
            self.customer.write(m, customer, CUSTOMER_DATA, CUSTOMER_BYTES);
        }
        self.history.insert(m, self.paid);
        self.paid += 1;
    }
}

impl Algorithm for Tpcc {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.transactions)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        for rows in [self.warehouse, self.district, self.customer, self.item, self.stock] {
            rows.fill(setup, rows.len());
        }
        let i = &self.indexes;
        for index in [i.warehouse, i.district, i.customer, i.item, i.stock] {
            index.fill(setup);
        }
        setup.fill(i.names, |at| at / NAMES * CUSTOMERS + at % NAMES);
        setup.fill(i.same_name, |customer| {
            // The last of a name points at nobody.
            if customer % CUSTOMERS + NAMES < CUSTOMERS { customer + NAMES } else { u64::MAX }
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::Turns
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        m.block(0, 40);
        self.drawn = 0;
        if self.draw(100) < self.payments {
            self.payment(m);
        } else {
            self.new_order(m);
        }
        self.at += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn what_was_counted_in_the_rows_is_what_was_done() {
        let mut found = model(Tpcc::new(2, 500, 50, 3));
        let (ordered, lines, paid) = (found.algorithm.ordered, found.algorithm.lines, found.algorithm.paid);
        assert_eq!(ordered + paid, 500);
        assert!((200..300).contains(&paid), "{paid} payments");
        assert!((9 * ordered..11 * ordered).contains(&lines), "{lines} lines of {ordered} orders");
        // Each order took a number of its district, each line some of a stock, and each payment went to a warehouse.
        // The rows' words grew by that much.
        let mut grown = |rows: Rows, count: u64, byte: u64| -> u64 {
            (0..count)
                .map(|row| {
                    let before = (row * rows.bytes() + byte) / 8;
                    rows.get(&mut found.memory, row, byte).wrapping_sub(before)
                })
                .sum()
        };
        assert_eq!(grown(found.algorithm.district, 20, DISTRICT_NEXT), ordered);
        assert_eq!(grown(found.algorithm.stock, 2 * ITEMS, STOCK_QUANTITY), lines);
        assert_eq!(grown(found.algorithm.warehouse, 2, WAREHOUSE_YTD), paid);
        assert_eq!(grown(found.algorithm.customer, 2 * DISTRICTS * CUSTOMERS, CUSTOMER_BALANCE), paid);
    }
}
