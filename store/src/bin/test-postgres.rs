//! Starts a Postgres for a whole test run: prints the URL for `MCPINDEX_TEST_PG_URL` on one line, and stays until its
//! input ends or it is killed. For runners that start a process for each test.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let cluster = mcpindex_store::testing::Cluster::start();
    writeln!(std::io::stdout(), "{}", cluster.url())?;
    std::io::stdout().flush()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
