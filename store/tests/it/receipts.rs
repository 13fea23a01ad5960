//! Receipts: kept once, expired, forgotten with their install.

use mcpindex_contract::receipt::Receipt;
use mcpindex_contract::signal::InstallId;
use mcpindex_store::Store;
use mcpindex_store::receipts::ReceivedReceipt;
use mcpindex_store::signals::Network;
use mcpindex_store::testing::on_each_backend;
use tokio::task::JoinSet;

const NOW: i64 = 1_796_058_245;

fn install(number: u128) -> InstallId {
    InstallId::from_bytes(number.to_be_bytes())
}

fn received(number: u128, id: &str) -> ReceivedReceipt {
    ReceivedReceipt {
        install: install(number),
        receipt: Receipt {
            id: format!("rcpt_{id:0>16}"),
            tool_hash: format!("sha256:{}", "a".repeat(64)),
            verdict: "ALLOW".to_owned(),
            text: format!(r#"{{"receipt_id":"rcpt_{id:0>16}"}}"#),
        },
        network: Network::of([192, 0, 2, 1].into()),
        authenticated: false,
    }
}

async fn record(store: &Store, receipts: &[ReceivedReceipt], now: i64) -> u64 {
    store.record_receipts(receipts, now).await.unwrap()
}

#[tokio::test]
async fn a_receipt_that_is_told_again_is_kept_once() {
    on_each_backend(async |store| {
        let both = [received(1, "1"), received(2, "1")];
        assert_eq!(record(&store, &both, NOW).await, 2);
        let again = [received(2, "1"), received(1, "2"), received(1, "2")];
        assert_eq!(record(&store, &again, NOW + 1).await, 1);
        assert_eq!(store.receipts_kept().await.unwrap(), 3);
        let texts = store.receipts_of(install(1), 10).await.unwrap();
        assert_eq!(
            texts,
            [received(1, "2"), received(1, "1")].map(|received| received.receipt.text)
        );
        assert_eq!(store.receipts_of(install(1), 1).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn many_writers_of_the_same_receipts_keep_each_once() {
    on_each_backend(async |store| {
        let all: Vec<ReceivedReceipt> = (0..1_500)
            .map(|number| received(7, &number.to_string()))
            .collect();
        let mut writers = JoinSet::new();
        for start in 0..4 {
            let (store, mut own) = (store.clone(), all.clone());
            own.rotate_left(start * 400);
            writers.spawn(async move { store.record_receipts(&own, NOW).await.unwrap() });
        }
        assert_eq!(writers.join_all().await.iter().sum::<u64>(), 1_500);
        assert_eq!(store.receipts_kept().await.unwrap(), 1_500);
    })
    .await;
}

#[tokio::test]
async fn what_is_past_keeping_goes_and_the_rest_stays() {
    on_each_backend(async |store| {
        record(&store, &[received(1, "1")], NOW - 101).await;
        record(&store, &[received(1, "2")], NOW - 100).await;
        assert_eq!(store.expire_receipts(NOW, 100).await.unwrap(), 1);
        assert_eq!(store.expire_receipts(NOW, 100).await.unwrap(), 0);
        assert_eq!(store.receipts_kept().await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_forgotten_install_has_no_receipts() {
    on_each_backend(async |store| {
        record(
            &store,
            &[received(1, "1"), received(1, "2"), received(2, "1")],
            NOW,
        )
        .await;
        assert_eq!(store.purge_install(install(1)).await.unwrap(), 2);
        assert_eq!(store.receipts_kept().await.unwrap(), 1);
        assert!(store.receipts_of(install(1), 10).await.unwrap().is_empty());
    })
    .await;
}
