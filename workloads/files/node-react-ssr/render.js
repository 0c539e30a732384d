// Renders a page of small components to a string: PAGES ROWS.
"use strict";
const React = require("react");
const { renderToString } = require("react-dom/server");
const h = React.createElement;
const [pages, rows] = process.argv.slice(2).map(Number);

const Badge = ({ kind, text }) => h("span", { className: `badge badge-${kind}` }, text);
const Price = ({ cents }) => h("b", null, (cents / 100).toFixed(2));
const Star = ({ on }) => h("i", { className: on ? "star on" : "star" });
const Stars = ({ count }) => h("span", null, [1, 2, 3, 4, 5].map((n) => h(Star, { key: n, on: n <= count })));
class Row extends React.Component {
  render() {
    const { item } = this.props;
    return h(
      "tr",
      { id: `row-${item.id}`, style: { color: item.stock ? "black" : "grey" } },
      h("td", null, item.name, " ", h(Badge, { kind: item.kind, text: item.kind })),
      h("td", null, h(Price, { cents: item.cents })),
      h("td", null, h(Stars, { count: item.stars })),
      h("td", null, item.stock ? `${item.stock} left` : "sold out"),
    );
  }
}
const Page = ({ title, items }) =>
  h("main", null, h("h1", null, title), h("table", null, h("tbody", null, items.map((item) => h(Row, { key: item.id, item })))));

// A generator of one's own (Park and Miller's): each run renders the same pages.
let seed = 42;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
const kinds = ["new", "sale", "used", "last"];
let bytes = 0;
for (let page = 0; page < pages; page++) {
  const items = Array.from({ length: rows }, (_, i) => ({
    id: page * rows + i,
    name: `Thing & Co. no. ${random(100000)}`,
    kind: kinds[random(kinds.length)],
    cents: random(100000),
    stars: random(6),
    stock: random(10),
  }));
  bytes += renderToString(h(Page, { title: `Page <${page}>`, items })).length;
}
console.log(bytes);
