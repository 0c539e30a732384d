import java.math.BigDecimal;
import java.math.MathContext;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Random;

/** Tables of decimals with 30 digits in an embedded database: THREADS ROWS ROUNDS. */
public final class Decimals {
    private static final String URL = "jdbc:derby:decimals";

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]);
        int rows = Integer.parseInt(args[1]);
        int rounds = Integer.parseInt(args[2]);
        DriverManager.getConnection(URL + ";create=true").close();
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int number = i;
            all[i] = new Thread(() -> work(number, rows, rounds));
            all[i].start();
        }
        for (Thread each : all) each.join();
        try {
            DriverManager.getConnection("jdbc:derby:;shutdown=true");
        } catch (SQLException ended) {
            // This is how Derby says that it has shut down.
        }
    }

    private static void work(int number, int rows, int rounds) {
        Random random = new Random(number);
        String table = "prices" + number;
        try (Connection connection = DriverManager.getConnection(URL)) {
            connection.setAutoCommit(false);
            try (Statement make = connection.createStatement()) {
                make.execute("create table " + table
                    + " (id int primary key, kind int, price decimal(31,15), total decimal(31,15))");
                make.execute("create index kind" + number + " on " + table + " (kind)");
            }
            try (PreparedStatement insert = connection.prepareStatement("insert into " + table + " values (?, ?, ?, ?)")) {
                for (int id = 0; id < rows; id++) {
                    insert.setInt(1, id);
                    insert.setInt(2, random.nextInt(100));
                    insert.setBigDecimal(3, new BigDecimal(random.nextInt(1_000_000_000) + ".123456789012345"));
                    insert.setBigDecimal(4, BigDecimal.ZERO);
                    insert.executeUpdate();
                }
            }
            connection.commit();
            for (int round = 0; round < rounds; round++) transact(connection, table, random);
        } catch (SQLException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    private static void transact(Connection connection, String table, Random random) throws SQLException {
        int kind = random.nextInt(100);
        BigDecimal sum = BigDecimal.ONE;
        try (PreparedStatement read = connection.prepareStatement("select id, price from " + table + " where kind = ?");
            PreparedStatement write = connection.prepareStatement("update " + table + " set total = ? where id = ?")) {
            read.setInt(1, kind);
            try (ResultSet found = read.executeQuery()) {
                while (found.next()) {
                    BigDecimal price = found.getBigDecimal(2);
                    sum = sum.multiply(price, MathContext.DECIMAL128).divide(price.add(BigDecimal.TEN), MathContext.DECIMAL128);
                    write.setBigDecimal(1, sum.setScale(15, java.math.RoundingMode.HALF_EVEN));
                    write.setInt(2, found.getInt(1));
                    write.executeUpdate();
                }
            }
        }
        connection.commit();
    }
}
